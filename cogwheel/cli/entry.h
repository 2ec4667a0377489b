// The command line as a function of the library libcogwheel_command.so, which the executable and `python -m cogwheel`
// load alike.
#pragma once

// Runs a command, says on stderr what went wrong, and returns the exit code: 0 done, 2 wrong usage, 1 a problem with
// files, data, memory or numbers, 130 interrupted. `group`: the name of the process group of several ranks, of which
// this process is one.
extern "C" int cogwheel_command(int argc, char** argv, const char* group, int rank, int ranks);
