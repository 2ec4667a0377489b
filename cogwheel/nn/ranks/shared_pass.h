// A pass that several ranks make together, as layers see it: what is exchanged, and nothing of processes
// (runs/training/shared_slices.h has them).
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/ops/recurrent/recurrent.h"

namespace cogwheel::nn {

// Ranks each of which has some tokens of every text: stretches, one after another. Every member function that returns
// tensors is a collective, with derivatives, but the parts of what a rank has; each rank has its own part of the loss
// and of what ranks share. Dimensions count from 0.
class SharedTexts {
 public:
  virtual ~SharedTexts() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t count() const = 0;

  // ops::attention and ops::recurrent of the whole texts, for the tokens of this rank.
  virtual at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               std::string_view mechanism, const ops::AttentionOptions& options) const = 0;
  virtual std::tuple<at::Tensor, std::vector<at::Tensor>> recurrent(const std::optional<at::Tensor>& query,
                                                                    const std::optional<at::Tensor>& key,
                                                                    const at::Tensor& value, std::string_view mechanism,
                                                                    const ops::RecurrentOptions& options) const = 0;
  // All tokens in their order, of each rank's own. `what` is for the error of a rank whose others are gone.
  virtual at::Tensor all_tokens(const at::Tensor& own, std::int64_t dim, const std::string& what) const = 0;
  // The `count` tokens before each stretch of this rank, 0 before the first of the text.
  virtual std::vector<at::Tensor> tokens_before(const at::Tensor& own, std::int64_t dim, std::int64_t count,
                                                const std::string& what) const = 0;
  // No collectives: a tensor for each stretch of this rank's own tokens; the own ones of all.
  virtual std::vector<at::Tensor> stretches(const at::Tensor& own, std::int64_t dim) const = 0;
  virtual at::Tensor own_tokens(const at::Tensor& all, std::int64_t dim) const = 0;
};

// Ranks that share the heads of attention, the hidden units of feed-forward layers and the vocabulary, which they
// divide.
class SharedHeads {
 public:
  virtual ~SharedHeads() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t count() const = 0;
  // Collective: Σ over ranks, alike on all, added in float32 or wider; its gradient is the sum of those of all ranks,
  // each of which has its own part of the loss.
  virtual at::Tensor sum(const at::Tensor& part, const std::string& what) const = 0;
  // Collective: what each rank has, [ranks, …]. Without derivatives.
  virtual at::Tensor of_each(const at::Tensor& own, const std::string& what) const = 0;
  // The share of this rank of a dimension, counted from 0. No collective.
  virtual at::Tensor own(const at::Tensor& tensor, std::int64_t dim) const = 0;
};

}  // namespace cogwheel::nn
