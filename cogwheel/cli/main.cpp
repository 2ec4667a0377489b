#include "cogwheel/cli/allocator.h"
#include "cogwheel/cli/entry.h"
#include "cogwheel/cli/wait_policy.h"

int main(int argc, char** argv) {
  cogwheel::cli::sleep_where_the_machine_is_busy(argv);
  cogwheel::cli::keep_freed_memory();
  return cogwheel_command(argc, argv, "", 0, 1, nullptr);
}
