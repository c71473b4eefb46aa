/* SPDX-License-Identifier: BSD-2-Clause */
/* base/version.c - the version that the build was configured with. */
#include <taut/taut.h>

const char *taut_version(void)
{
    return TAUT_VERSION;
}
