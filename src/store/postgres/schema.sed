# SPDX-License-Identifier: Apache-2.0
# Makes a C source of schema.sql.
1i #include "store/postgres/postgres.h"\n\nconst char postgres_schema_sql[] =
s/"/\\"/g
s/.*/    "&\\n"/
$a \    ;
