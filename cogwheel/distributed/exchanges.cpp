#include "cogwheel/distributed/exchanges.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/distributed/joint_exchange.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::distributed {
namespace {

using ops::variable_list;

variable_list heads_of_own(const CutRanks& ranks, const variable_list& own, const HeadsAndTokens& dims,
                           const std::string& what) {
  variable_list parts, of_heads;
  for (const at::Tensor& each : own) parts.push_back(at::stack(each.chunk(ranks.group.count(), dims.heads)));
  JointExchange travelling = JointExchange::exchange(ranks.group, std::exchange(parts, {}), what);
  for (std::size_t i = 0; i < own.size(); ++i) of_heads.push_back(ranks.cut.whole(travelling.next(what), dims.tokens));
  return of_heads;
}

variable_list tokens_of_heads(const CutRanks& ranks, const variable_list& of_heads, const HeadsAndTokens& dims,
                              const std::string& what) {
  variable_list parts, own;
  for (const at::Tensor& each : of_heads) parts.push_back(ranks.cut.parts(each, dims.tokens));
  JointExchange travelling = JointExchange::exchange(ranks.group, std::exchange(parts, {}), what);
  for (std::size_t i = 0; i < of_heads.size(); ++i) own.push_back(at::cat(travelling.next(what).unbind(), dims.heads));
  return own;
}

// The results of `forward`, whose gradients `backward` makes of those of all results: of one that is unused they are 0.
template <class Forward, class Backward>
variable_list recorded(const char* name, const variable_list& inputs, const Forward& forward, Backward backward) {
  variable_list outputs;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    outputs = forward(inputs);
  }
  if (!ops::needs_record(inputs)) return outputs;
  struct Shape {
    std::vector<std::int64_t> sizes;
    at::TensorOptions options;
  };
  std::vector<Shape> shapes;
  for (const at::Tensor& each : outputs) shapes.push_back({each.sizes().vec(), each.options()});
  ops::record_saving(name, inputs, outputs, {},
                     [backward = std::move(backward), shapes = std::move(shapes)](
                         const variable_list&, const variable_list&, const variable_list& given) {
                       variable_list gradients = given;
                       for (std::size_t i = 0; i < gradients.size(); ++i)
                         if (!gradients[i].defined()) gradients[i] = at::zeros(shapes[i].sizes, shapes[i].options);
                       return backward(gradients);
                     });
  return outputs;
}

// The same of one tensor.
template <class Forward, class Backward>
at::Tensor recorded(const char* name, const at::Tensor& input, const Forward& forward, Backward backward) {
  return recorded(
             name, variable_list{input}, [&](const variable_list& inputs) { return variable_list{forward(inputs[0])}; },
             [backward = std::move(backward)](const variable_list& gradients) {
               return variable_list{backward(gradients[0])};
             })
      .front();
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

std::vector<at::Tensor> shares_of_heads(const CutRanks& ranks, const std::vector<at::Tensor>& own,
                                        const HeadsAndTokens& dims, const std::string& what) {
  if (ranks.group.count() == 1) return own;
  if (own.size() > 1 && !travel_together(own)) {
    std::vector<at::Tensor> shares;  // one after the other, so that parts of one alone are held
    for (const at::Tensor& each : own) shares.push_back(share_of_heads(ranks, each, dims, what));
    return shares;
  }
  return recorded(
      "SharesOfHeadsBackward", own,
      [&](const variable_list& inputs) { return heads_of_own(ranks, inputs, dims, what); },
      [ranks, dims, what](const variable_list& gradients) { return tokens_of_heads(ranks, gradients, dims, what); });
}

at::Tensor share_of_heads(const CutRanks& ranks, const at::Tensor& own, const HeadsAndTokens& dims,
                          const std::string& what) {
  return shares_of_heads(ranks, {own}, dims, what).front();
}

at::Tensor share_of_tokens(const CutRanks& ranks, const at::Tensor& of_heads, const HeadsAndTokens& dims,
                           const std::string& what) {
  if (ranks.group.count() == 1) return of_heads;
  return recorded(
             "ShareOfTokensBackward", variable_list{of_heads},
             [&](const variable_list& inputs) { return tokens_of_heads(ranks, inputs, dims, what); },
             [ranks, dims, what](const variable_list& gradients) { return heads_of_own(ranks, gradients, dims, what); })
      .front();
}

at::Tensor sum_of_parts(const Group& ranks, const at::Tensor& part, const std::string& what) {
  if (ranks.count() == 1) return part;
  const auto sum = [ranks, what](const at::Tensor& own) {
    const at::ScalarType type = own.scalar_type();
    const at::Tensor flat = own.reshape(-1).to(type == at::kDouble ? type : at::kFloat);
    if (summed_by_all(static_cast<std::int64_t>(flat.nbytes()), ranks.count()))
      return sum_of_ranks(ranks.gather(flat, what).result(what)).view(own.sizes()).to(type);
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
