/* SPDX-License-Identifier: BSD-2-Clause */
/* write_samples PATH RUN PROCESS COUNT SEED CLOSED_LOOP: a raw file of random records. */
#include "samples.h"

int main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    write_random(argv[1], (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]),
                 strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10), atoi(argv[6]));
    return 0;
}
