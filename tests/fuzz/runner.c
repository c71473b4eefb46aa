/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replays a fuzz target's corpus without libFuzzer, with any compiler: each argument is a file or a
 * directory of files. Beside each file, all its shorter beginnings are tried. Fails where there was
 * nothing to replay.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LARGEST 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    uint8_t *bytes = malloc(LARGEST);
    FILE *file = bytes ? fopen(path, "rb") : NULL;
    if (!file) {
        perror(path);
        free(bytes);
        return -1;
    }
    size_t size = fread(bytes, 1, LARGEST, file);
    fclose(file);
    for (size_t n = 0; n <= size; n += n + 300 < size ? 7 : 1) {
        uint8_t *exact = malloc(n ? n : 1);
        if (!exact)
            abort();
        memcpy(exact, bytes, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
    }
    free(bytes);
    return 1;
}

static int replay(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        perror(path);
        return -1;
    }
    if (!S_ISDIR(status.st_mode))
        return replay_file(path);
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort), files = 0;
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && files >= 0)
            files = replay_file(name) < 0 ? -1 : files + 1;
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return files;
}

int main(int argc, char **argv)
{
    int files = 0;
    for (int i = 1; i < argc; i++) {
        int more = replay(argv[i]);
        if (more < 0)
            return 1;
        files += more;
    }
    printf("%d files\n", files);
    return files > 0 ? 0 : 1;
}
