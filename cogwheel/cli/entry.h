// The command line as a function of the library libcogwheel_command.so, which the executable and `python -m cogwheel`
// load alike.
#pragma once

// Divides the ranks into groups of `size`, numbers `stride` apart, on all ranks at once, and writes the name of the one
// that this process is in, with a 0 after it: up to `capacity` bytes.
using CogwheelMakeGroup = void (*)(int size, int stride, char* name, int capacity);

// Runs a command, says on stderr what went wrong, and returns the exit code: 0 done, 2 wrong usage, 1 a problem with
// files, data, memory or numbers, 130 interrupted. `group`: the name of the process group of several ranks, of which
// this process is one; `make_group` may be null without several.
extern "C" int cogwheel_command(int argc, char** argv, const char* group, int rank, int ranks,
                                CogwheelMakeGroup make_group);
