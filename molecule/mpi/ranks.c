/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A rank of a test: says where it is, the sum and the maximum over all ranks, and the variables that its arguments name, as hexadecimal
   digits so that nothing in them can be taken for something else. With STAY in the environment it stays. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **names)
{
    int rank, ranks, i;
    long mine[1000], sum[1000], largest, wrong = 0;
    char host[256], line[8192];
    size_t at;

    MPI_Init(&count, &names);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (i = 0; i < 1000; i++)
        mine[i] = (long)(rank + 1) * (i + 1);
    MPI_Allreduce(mine, sum, 1000, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (i = 0; i < 1000; i++)
        wrong += sum[i] != (long)(i + 1) * ranks * (ranks + 1) / 2;
    MPI_Allreduce(&mine[0], &largest, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    at = snprintf(line, sizeof line, "rank %d of %d on %s sum %ld largest %ld wrong %ld", rank, ranks, host, sum[0], largest, wrong);
    for (i = 1; i < count; i++) {
        const char *value = getenv(names[i]);
        at += snprintf(line + at, sizeof line - at, " %s=", names[i]);
        for (; value != NULL && *value != 0 && at < sizeof line - 8; value++)
            at += snprintf(line + at, sizeof line - at, "%02x", (unsigned char)*value);
        if (value == NULL)
            at += snprintf(line + at, sizeof line - at, "unset");
    }
    line[at] = '\n';
    if (write(1, line, at + 1) < 0)  /* one write: lines of several ranks do not mix */
        return 1;
    if (getenv("STAY") != NULL)
        sleep(3600);
    MPI_Finalize();
    return 0;
}
