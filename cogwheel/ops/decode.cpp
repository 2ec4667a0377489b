#include "cogwheel/ops/decode.h"

#include <algorithm>
#include <string>

#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/ops/checks.h"

namespace cogwheel {
namespace {

// Names that are not known are left to `attention` to refuse.
bool is_dense(std::string_view name) {
  const auto all = all_mechanisms();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Mechanism& mechanism) { return mechanism.description.name == name; });
  return found != all.end() && found->kind == MechanismKind::dense;
}

}  // namespace

at::Tensor decode(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const at::Tensor& first_positions, const at::Tensor& lengths, std::string_view mechanism,
                  const AttentionOptions& options) {
  if (is_dense(mechanism))
    refuse("mechanism", "one whose rows stand alone, to decode",
           std::string(mechanism) + ", a function of the whole score matrix");
  if (options.key_lengths) refuse("key_lengths", "none beside a cache's own", shape_text(*options.key_lengths));
  if (options.cu_seqlens) refuse("cu_seqlens", "none beside a cache", shape_text(*options.cu_seqlens));
  AttentionOptions from_cache = options;
  from_cache.causal = true;
  from_cache.key_lengths = lengths;
  from_cache.first_positions = first_positions;
  return attention(query, key, value, mechanism, from_cache);
}

}  // namespace cogwheel
