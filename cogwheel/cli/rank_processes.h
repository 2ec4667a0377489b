// Starts the ranks of a job on this machine: `--ranks N` of `train`, `resume`, `evaluate` and `bench network`.
#pragma once
#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace cogwheel::cli {

// `what`: what processes do together. 0: not given, one rank or as many as this process is one of.
void add_ranks_option(CLI::App& command, std::int64_t& count, const std::string& what);

// Whether this process is not itself one of several ranks that are asked for: then it has started them, with the words
// of this command line, and they have ended well. Throws Error that names the rank which did not, after which none is
// left; what the first rank has said on stderr is not said again.
bool ran_as_ranks(std::int64_t count);

// What the first of so many ranks prints, which this process starts with the words of this command line and so many
// threads each. Throws as ran_as_ranks.
std::string output_of_ranks(std::int64_t count, std::int64_t threads);

// How many threads each of so many ranks has here: OMP_NUM_THREADS where the user has set it, which is what this
// process has then; else a share of the machine's.
std::int64_t threads_of_each(std::int64_t ranks);

// Of the command line, for ran_as_ranks.
void keep_words(int argc, char** argv);

}  // namespace cogwheel::cli
