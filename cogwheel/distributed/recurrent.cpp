#include "cogwheel/distributed/recurrent.h"

#include <string>

#include "cogwheel/attention/mechanisms/recurrent_contract.h"
#include "cogwheel/distributed/state_chain.h"
#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/support/bundle.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::distributed {
namespace {

const std::string of_recurrent = "heads of a mechanism with a state";

// Of the heads of this rank, for all tokens.
at::Tensor of_own_heads(const CutRanks& ranks, const at::Tensor& tensor, std::string_view axes) {
  const std::size_t heads = axes.find('H'), tokens = axes.find('N');
  const auto place = [](std::size_t axis) { return static_cast<std::int64_t>(axis); };
  if (heads == std::string_view::npos)
    return tokens == std::string_view::npos ? tensor : all_tokens(ranks, tensor, place(tokens), of_recurrent);
  if (tokens == std::string_view::npos) return own_heads(ranks.group, tensor, place(heads));
  return share_of_heads(ranks, tensor, {place(heads), place(tokens)}, of_recurrent);
}

std::tuple<at::Tensor, std::vector<at::Tensor>> by_own_heads(const CutRanks& ranks, const RecurrentLaw& law,
                                                             const ops::OptionalTensor& query,
                                                             const ops::OptionalTensor& key, const at::Tensor& value,
                                                             const ops::RecurrentOptions& given) {
  constexpr std::string_view axes = "BHND";
  const auto shared = [&](const ops::OptionalTensor& tensor) {
    return tensor ? ops::OptionalTensor(of_own_heads(ranks, *tensor, axes)) : std::nullopt;
  };
  ops::RecurrentOptions options = given;
  for (auto& [name, tensor] : options.parameters) tensor = of_own_heads(ranks, tensor, axes_of(law, name, tensor));
  for (at::Tensor& part : options.initial_state) part = own_heads(ranks.group, part, 1);
  const auto own_query = shared(query), own_key = shared(key);
  auto [output, state] = ops::recurrent(own_query, own_key, *shared(value), law.name, options);
  const CutRanks in_order{ranks.group, SequenceCut("contiguous", ranks.group.rank(), ranks.group.count())};
  for (at::Tensor& part : state) part = all_tokens(in_order, part, 1, of_recurrent);  // heads are cut as tokens are
  return {share_of_tokens(ranks, output, {}, of_recurrent), std::move(state)};
}

}  // namespace

std::tuple<at::Tensor, std::vector<at::Tensor>> recurrent(const CutRanks& ranks, std::string_view method,
                                                          const std::optional<at::Tensor>& query,
                                                          const std::optional<at::Tensor>& key, const at::Tensor& value,
                                                          std::string_view mechanism,
                                                          const ops::RecurrentOptions& options) {
  const RecurrentLaw& law = ops::checked_recurrent_law(mechanism);
  const std::int64_t count = ranks.group.count();
  if (method != "auto" && method != "heads" && method != "chain")
    ops::refuse_recurrent("method", "auto, heads or chain", std::string(method));
  if (count == 1) return ops::recurrent(query, key, value, mechanism, options);
  if (value.dim() != 4 || value.size(2) == 0)
    ops::refuse_recurrent("value", "[batch, heads, tokens of this rank, width], with tokens", ops::shape_text(value));
  ranks.cut.places(ranks.group.rank(), value.size(2));
  const bool divides = value.size(1) % count == 0, needs_heads = options.cu_seqlens || !options.causal;
  if ((method == "heads" || (method == "auto" && needs_heads)) && !divides)
    ops::refuse_recurrent("heads", "a multiple of " + std::to_string(count) + " ranks (method heads)",
                          std::to_string(value.size(1)));
  if (method == "chain" && needs_heads)
    ops::refuse_recurrent("method", options.causal ? "heads beside cu_seqlens" : "heads beside causal=False", "chain");
  if (method == "heads" || needs_heads) return by_own_heads(ranks, law, query, key, value, options);
  return by_state_chain(ranks, law, query, key, value, options);
}

}  // namespace cogwheel::distributed
