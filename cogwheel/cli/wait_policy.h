// How OpenMP's threads wait for each other.
#pragma once

namespace cogwheel {

// Threads that wait spin, by default for milliseconds. Alone on a machine that is fastest; beside other busy processes
// the one that spins holds the core that the one it waits for needs: training on two cores of a machine with a load of
// 5 made 1,100 tokens/s spinning and 13,000 with threads that sleep. libgomp reads its policy before main, so where the
// machine is busy, and the environment does not choose, this starts the program again with sleeping threads. Results do
// not depend on it.
void sleep_where_the_machine_is_busy(char** argv);

}  // namespace cogwheel
