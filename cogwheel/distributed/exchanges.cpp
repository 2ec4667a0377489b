#include "cogwheel/distributed/exchanges.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::distributed {
namespace {

using ops::variable_list;

at::Tensor heads_of_own(const CutRanks& ranks, const at::Tensor& own, const HeadsAndTokens& dims,
                        const std::string& what) {
  const at::Tensor parts = at::stack(own.chunk(ranks.group.count(), dims.heads));
  return ranks.cut.whole(ranks.group.exchange(parts, what).result(what), dims.tokens);
}

at::Tensor tokens_of_heads(const CutRanks& ranks, const at::Tensor& of_heads, const HeadsAndTokens& dims,
                           const std::string& what) {
  const at::Tensor parts = ranks.cut.parts(of_heads, dims.tokens);
  return at::cat(ranks.group.exchange(parts, what).result(what).unbind(), dims.heads);
}

// The result of `forward`, whose gradient `backward` makes.
template <class Forward, class Backward>
at::Tensor recorded(const char* name, const at::Tensor& input, const Forward& forward, Backward backward) {
  at::Tensor output;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    output = forward(input);
  }
  if (ops::needs_record({input}))
    ops::record_saving(
        name, {input}, {output}, {},
        [backward = std::move(backward)](const variable_list&, const variable_list&, const variable_list& gradients) {
          return variable_list{backward(gradients[0])};
        });
  return output;
}

}  // namespace

at::Tensor all_tokens(const CutRanks& ranks, const at::Tensor& own, std::int64_t dim, const std::string& what) {
  if (ranks.group.count() == 1) return own;
  return recorded(
      "AllTokensBackward", own,
      [&](const at::Tensor& input) { return ranks.cut.whole(ranks.group.gather(input, what).result(what), dim); },
      [ranks, dim, what](const at::Tensor& gradient) {
        return sum_of_ranks(ranks.group.exchange(ranks.cut.parts(gradient, dim), what).result(what));
      });
}

std::vector<at::Tensor> stretches_of(const CutRanks& ranks, const at::Tensor& own, std::int64_t dim) {
  std::vector<at::Tensor> stretches;
  for (const Stretch& each : ranks.cut.places(ranks.group.rank(), own.size(dim)))
    stretches.push_back(own.narrow(dim, each.place, each.size()));
  return stretches;
}

std::vector<at::Tensor> tokens_before(const CutRanks& ranks, const at::Tensor& own, std::int64_t dim,
                                      std::int64_t count, const std::string& what) {
  // The ends of all stretches are a text that is cut in the same way.
  std::vector<at::Tensor> ends;
  for (const at::Tensor& stretch : stretches_of(ranks, own, dim)) {
    if (stretch.size(dim) < count)
      throw UsageError(expected_got("tokens of a stretch of a text that ranks share",
                                    "at least " + std::to_string(count), std::to_string(stretch.size(dim))));
    ends.push_back(stretch.narrow(dim, stretch.size(dim) - count, count));
  }
  // Joined, so that every rank goes back through the exchange, the one of the first stretch too.
  const at::Tensor all = at::cat({at::zeros_like(ends.front()), all_tokens(ranks, at::cat(ends, dim), dim, what)}, dim);
  std::vector<at::Tensor> before;
  for (const std::int64_t stretch : ranks.cut.stretches_of(ranks.group.rank()))
    before.push_back(all.narrow(dim, stretch * count, count));
  return before;
}

at::Tensor share_of_heads(const CutRanks& ranks, const at::Tensor& own, const HeadsAndTokens& dims,
                          const std::string& what) {
  if (ranks.group.count() == 1) return own;
  return recorded(
      "ShareOfHeadsBackward", own, [&](const at::Tensor& input) { return heads_of_own(ranks, input, dims, what); },
      [ranks, dims, what](const at::Tensor& gradient) { return tokens_of_heads(ranks, gradient, dims, what); });
}

at::Tensor share_of_tokens(const CutRanks& ranks, const at::Tensor& of_heads, const HeadsAndTokens& dims,
                           const std::string& what) {
  if (ranks.group.count() == 1) return of_heads;
  return recorded(
      "ShareOfTokensBackward", of_heads,
      [&](const at::Tensor& input) { return tokens_of_heads(ranks, input, dims, what); },
      [ranks, dims, what](const at::Tensor& gradient) { return heads_of_own(ranks, gradient, dims, what); });
}

at::Tensor sum_of_parts(const Group& ranks, const at::Tensor& part, const std::string& what) {
  if (ranks.count() == 1) return part;
  const auto sum = [ranks, what](const at::Tensor& own) {
    const at::ScalarType type = own.scalar_type();
    const at::Tensor flat = own.reshape(-1).to(type == at::kDouble ? type : at::kFloat);
    const std::int64_t count = ranks.count(), share = (flat.numel() + count - 1) / count;
    const at::Tensor parts = at::constant_pad_nd(flat, {0, share * count - flat.numel()}).view({count, share});
    const at::Tensor shared = sum_of_ranks(ranks.exchange(parts, what).result(what));
    return ranks.gather(shared, what).result(what).view(-1).narrow(0, 0, flat.numel()).view(own.sizes()).to(type);
  };
  return recorded("SumOfPartsBackward", part, sum, sum);
}

at::Tensor own_heads(const Group& ranks, const at::Tensor& tensor, std::int64_t dim) {
  const std::int64_t share = tensor.size(dim) / ranks.count();
  return tensor.narrow(dim, ranks.rank() * share, share);
}

}  // namespace cogwheel::distributed
