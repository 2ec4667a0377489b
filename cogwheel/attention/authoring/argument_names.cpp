#include "cogwheel/attention/authoring/argument_names.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel::authoring {
namespace {

constexpr auto of_operators = std::to_array<std::string_view>(
    {// of attention and related functions
     "query", "key", "value", "mechanism", "causal", "scale", "window", "key_lengths", "first_positions", "cu_seqlens",
     "ranges", "softcap", "bias", "energy_bias", "alibi", "local_radius", "local_centers", "dropout", "seed", "score",
     "score_weight", "score_projection", "parameters", "parameter_names", "options", "argmax", "lam",
     // of the drop-in
     "attn_mask", "dropout_p", "is_causal", "enable_gqa",
     // of a cache
     "self", "batch", "key_heads", "value_heads", "capacity", "head_dim", "value_dim", "dtype", "device", "lengths",
     "query_lengths", "entries", "cache_key", "cache_value", "cache_lengths",
     // parts of a layer
     "query_key_value", "query_value", "output", "head_norm", "lambda_query1", "lambda_key1", "lambda_query2",
     "lambda_key2", "projection", "weights", "theta"});

}  // namespace

bool is_argument(std::string_view name) {
  return std::find(of_operators.begin(), of_operators.end(), name) != of_operators.end();
}

void check_parameter_names(std::string_view mechanism, std::string_view names) {
  std::istringstream list{std::string(names)};
  for (std::string name; std::getline(list >> std::ws, name, ',');)
    if (is_argument(name))
      throw UsageError(expected_got(std::string(mechanism) + ": parameter",
                                    "a name of up to 40 letters, digits and _ that nothing else has", name));
}

}  // namespace cogwheel::authoring
