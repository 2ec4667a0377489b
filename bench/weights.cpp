// Reading foreign weights behind a C function, for bench/weights.py.
#include <torch/types.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cogwheel/interchange/foreign_weights.h"
#include "cogwheel/interchange/tensor_table.h"

using namespace cogwheel::interchange;

// All tensors of a folder, each as a parameter of its own, as float32; their rows in another order, or transposed,
// where that is asked for. Returns the bytes of the parameters, or -1.
extern "C" __attribute__((visibility("default"))) std::int64_t read_weights(const char* folder, int ordered,
                                                                            int transposed) {
  try {
    const ForeignWeights weights{std::filesystem::path(folder)};
    TensorTable table("bench");
    for (const auto& [name, tensor] : weights.tensors()) {
      const Shape& shape = tensor.shape();
      const std::string module = name.substr(0, name.rfind('.'));
      const std::int64_t rows = transposed ? shape[1] : shape[0], columns = transposed ? shape[0] : shape[1];
      table.linear(module,
                   {{.module = module, .rows = rows, .order = ordered ? adjacent_from_halves(1, rows) : Order{}}},
                   columns, {.bias = Bias::none, .transposed = transposed != 0});
    }
    std::vector<std::string> left_out;
    std::int64_t bytes = 0;
    for (const auto& [name, tensor] : table.to_ours(weights, left_out)) bytes += tensor.nbytes();
    return bytes;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return -1;
  }
}
