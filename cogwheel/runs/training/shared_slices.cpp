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
  at::Tensor of_each(const at::Tensor& own, const std::string& what) const override {
    return group_.gather(own, what).result(what);
  }
  at::Tensor own(const at::Tensor& tensor, std::int64_t dim) const override {
    return distributed::own_heads(group_, tensor, dim);
  }

 private:
  distributed::Group group_;
};

}  // namespace

const SharedSlices::Groups& SharedSlices::groups() const {
  if (groups_) return *groups_;
  const std::int64_t texts = ranks_of_text_, heads = ranks_of_heads_;
  auto made = std::make_unique<Groups>();
  made->all = ranks_.of(texts * heads, 1);
  made->of_heads = texts == 1 ? made->all : ranks_.of(heads, 1);
  made->same_heads = ranks_.of(ranks_.count() / heads, heads);
  if (heads > 1) made->heads = std::make_unique<HeadsOfRanks>(made->of_heads);
  if (texts > 1) made->texts = std::make_unique<TextsOfRanks>(heads == 1 ? made->all : ranks_.of(texts, heads));
  groups_ = std::move(made);
  return *groups_;
}

}  // namespace cogwheel::runs
