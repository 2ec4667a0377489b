#include "cogwheel/runs/training/shared_slices.h"

#include <utility>

#include "cogwheel/distributed/attention.h"
#include "cogwheel/distributed/exchanges.h"
#include "cogwheel/distributed/recurrent.h"

namespace cogwheel::runs {
namespace {

class TextsOfRanks : public nn::SharedTexts {
 public:
  explicit TextsOfRanks(const distributed::Group& group)
      : ranks_{group, distributed::SequenceCut("zigzag", group.rank(), group.count())} {}

  std::int64_t rank() const override { return ranks_.group.rank(); }
  std::int64_t count() const override { return ranks_.group.count(); }
  at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       std::string_view mechanism, const ops::AttentionOptions& options) const override {
    return distributed::attention(ranks_, "auto", query, key, value, mechanism, options);
  }
  std::tuple<at::Tensor, std::vector<at::Tensor>> recurrent(const std::optional<at::Tensor>& query,
                                                            const std::optional<at::Tensor>& key,
                                                            const at::Tensor& value, std::string_view mechanism,
                                                            const ops::RecurrentOptions& options) const override {
    return distributed::recurrent(ranks_, "auto", query, key, value, mechanism, options);
  }
  at::Tensor all_tokens(const at::Tensor& own, std::int64_t dim, const std::string& what) const override {
    return distributed::all_tokens(ranks_, own, dim, what);
  }
  std::vector<at::Tensor> tokens_before(const at::Tensor& own, std::int64_t dim, std::int64_t count,
                                        const std::string& what) const override {
    return distributed::tokens_before(ranks_, own, dim, count, what);
  }
  std::vector<at::Tensor> stretches(const at::Tensor& own, std::int64_t dim) const override {
    return distributed::stretches_of(ranks_, own, dim);
  }
  at::Tensor own_tokens(const at::Tensor& all, std::int64_t dim) const override {
    return ranks_.cut.part(all, dim, rank());
  }

 private:
  distributed::CutRanks ranks_;
};

class HeadsOfRanks : public nn::SharedHeads {
 public:
  explicit HeadsOfRanks(distributed::Group group) : group_(std::move(group)) {}

  std::int64_t rank() const override { return group_.rank(); }
  std::int64_t count() const override { return group_.count(); }
  at::Tensor sum(const at::Tensor& part, const std::string& what) const override {
    return distributed::sum_of_parts(group_, part, what);
  }
  at::Tensor own(const at::Tensor& tensor, std::int64_t dim) const override {
    return distributed::own_heads(group_, tensor, dim);
  }

 private:
  distributed::Group group_;
};

}  // namespace

SharedSlices::SharedSlices(const distributed::Ranks& ranks, std::int64_t texts, std::int64_t heads)
    : all_(ranks.of(texts * heads, 1)) {
  if (heads > 1) heads_ = std::make_unique<HeadsOfRanks>(ranks.of(heads, 1));
  if (texts > 1) texts_ = std::make_unique<TextsOfRanks>(ranks.of(texts, heads));
}

}  // namespace cogwheel::runs
