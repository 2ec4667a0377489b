// How OpenMP's threads wait for each other.
#pragma once

namespace cogwheel::cli {

// By default waiting threads spin for milliseconds. That is fastest on an idle machine; beside other busy processes a
// spinning thread occupies the core that the thread it waits for needs: training on two cores of a machine with a load
// of 5 reached 1,100 tokens/s with spinning threads and 13,000 with sleeping ones. libgomp reads its policy before
// main, so on a busy machine, unless the environment sets a policy, this restarts the program with sleeping threads.
// Results do not depend on it.
void sleep_where_the_machine_is_busy(char** argv);

}  // namespace cogwheel::cli
