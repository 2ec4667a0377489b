// `cogwheel bench network`, which is measured here and not by the benchmarks in Python: it has no peer.
#pragma once

namespace CLI {
class App;
}

namespace cogwheel::cli {

void add_bench_network_command(CLI::App& bench);

}  // namespace cogwheel::cli
