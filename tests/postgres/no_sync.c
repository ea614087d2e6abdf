/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a PostgreSQL whose data nobody looks at after a crash of the machine: its settings
 * are those of a durable server, and it waits for no disk. */
int fsync(int file);
int fdatasync(int file);
int sync_file_range(int file, long long offset, long long len, unsigned flags);

int fsync(int file)
{
    return file < 0 ? -1 : 0;
}

int fdatasync(int file)
{
    return fsync(file);
}

int sync_file_range(int file, long long offset, long long len, unsigned flags)
{
    (void)offset, (void)len, (void)flags;
    return fsync(file);
}
