// The subcommands. Each adds itself; its callback does the work.
#pragma once

namespace CLI {
class App;
}

namespace cogwheel::cli {

#define VERB(name) void add_##name##_command(CLI::App& app);
#include "cogwheel/cli/verbs.def"
#undef VERB

}  // namespace cogwheel::cli
