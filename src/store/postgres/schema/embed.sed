# SPDX-License-Identifier: Apache-2.0
# Makes a C source of the files of the schema, one after the other.
1i #include "store/postgres/postgres.h"\n\nconst char postgres_schema_sql[] =
s/[\\"]/\\&/g
s/.*/    "&\\n"/
$a \    ;
