/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A rank of a test: an all-reduce and a broadcast whose values it checks itself. With a word after it, it stays: "hang" waits for messages that
   nobody sends; "helper" has a process in a session of its own too, as data loaders and profilers are. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 4096

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "wrong: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

int main(int argc, char **argv)
{
    static double mine[COUNT], sum[COUNT];
    const char *way = argc > 1 ? argv[1] : "", *given = getenv("COMMAS");
    char host[MPI_MAX_PROCESSOR_NAME];
    int rank, size, length, nothing, word = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    for (int i = 0; i < COUNT; i++)
        mine[i] = (double)(rank + 1) * (i + 1);
    MPI_Allreduce(mine, sum, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        check(sum[i] == (double)(i + 1) * size * (size + 1) / 2, "a sum");
    if (rank == 0)
        word = 4711;
    MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
    check(word == 4711, "the broadcast");
    if (!strcmp(way, "helper") && fork() == 0) {
        setsid();
        execlp("sleep", "sleep", "3600", (char *)NULL);
        _exit(1);
    }
    printf("rank %d of %d on %s: %d values are right; COMMAS=%s\n", rank, size, host, COUNT, given ? given : "");
    fflush(stdout);
    if (*way)
        MPI_Recv(&nothing, 1, MPI_INT, (rank + 1) % size, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
