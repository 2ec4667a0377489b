#include "cogwheel/distributed/exchanges.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include <vector>

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

at::Tensor own_heads(const CutRanks& ranks, const at::Tensor& tensor, std::int64_t dim) {
  const std::int64_t share = tensor.size(dim) / ranks.group.count();
  return tensor.narrow(dim, ranks.group.rank() * share, share);
}

}  // namespace cogwheel::distributed
