// Gradients to which several chunks of keys contribute, summed in index order: the same bits for any number of workers.
#pragma once
#include "cogwheel/attention/kernels/pairwise/cpu/pairwise_rows.h"

namespace cogwheel::HWY_NAMESPACE {

template <class T>
class PartialGradients {
 public:
  PartialGradients(const PairwiseBackward<T>& problem, std::int64_t chunks, std::int64_t parameters)
      : problem_(problem), shape_(problem.shape), chunks_(chunks), parameters_(parameters) {}

  // In consecutive pieces of memory; a layout that only measures allocates none.
  void lie_in(WorkspaceLayout& layout) {
    const std::int64_t all = chunks_ * heads();
    const auto count = [all](bool wanted, std::int64_t each) {
      return static_cast<std::size_t>(wanted ? all * each : 0);
    };
    query_ = layout.take<T>(count(chunks_ > 1, shape_.queries * shape_.head_dim));
    parameter_ = layout.take<double>(count(true, parameters_));
    center_ = layout.take<double>(count(problem_.centers_gradient, shape_.queries));
    score_weight_ = layout.take<double>(count(problem_.score_weight, shape_.head_dim));
  }

  // The contribution of one chunk to one head, a batch entry's query head. Queries have such parts only if there is
  // more than one chunk; their rows then have width head_dim.
  T* query(std::int64_t chunk, std::int64_t head) const {
    return query_ + (chunk * heads() + head) * shape_.queries * shape_.head_dim;
  }
  double* parameter(std::int64_t chunk, std::int64_t head) const {
    return parameter_ + (chunk * heads() + head) * parameters_;
  }
  double* center(std::int64_t chunk, std::int64_t head) const {
    return center_ + (chunk * heads() + head) * shape_.queries;
  }
  double* score_weight(std::int64_t chunk, std::int64_t head) const {
    return score_weight_ + (chunk * heads() + head) * shape_.head_dim;
  }

  void add_up(const Executor& executor) const {
    if (chunks_ > 1) executor.run(heads(), [&](std::int64_t head, int) { add_up_queries(head); });
    if (parameters_ > 0) add_up_batch(parameter_, parameters_, 1, problem_.parameter_gradient);
    if (problem_.score_weight)
      add_up_batch(score_weight_, shape_.head_dim, static_cast<double>(problem_.scale), problem_.score_weight_gradient);
    if (problem_.centers_gradient) add_up_centers();
  }

 private:
  std::int64_t heads() const { return shape_.batch * shape_.query_heads; }

  void add_up_queries(std::int64_t head) const {
    for (std::int64_t i = 0; i < shape_.queries; ++i) {
      T sums[max_head_dim];
      std::copy_n(query(0, head) + i * shape_.head_dim, shape_.head_dim, sums);
      for (std::int64_t chunk = 1; chunk < chunks_; ++chunk) {
        const T* part = query(chunk, head) + i * shape_.head_dim;
        for (std::int64_t d = 0; d < shape_.head_dim; ++d) sums[d] += part[d];
      }
      store_row(sums, shape_.head_dim, Vector<T>(T(1)), problem_.query_gradient, head / shape_.query_heads,
                head % shape_.query_heads, i);
    }
  }

  // sums [query_heads][width] = factor · parts [chunks][batch][query_heads][width]
  void add_up_batch(const double* parts, std::int64_t width, double factor, double* sums) const {
    const std::int64_t count = shape_.query_heads * width;
    std::fill_n(sums, count, 0.0);
    for (std::int64_t part = 0; part < chunks_ * shape_.batch; ++part)
      for (std::int64_t i = 0; i < count; ++i) sums[i] += factor * parts[part * count + i];
  }

  void add_up_centers() const {
    const std::int64_t count = heads() * shape_.queries;
    std::fill_n(problem_.centers_gradient, count, 0.0);
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk)
      for (std::int64_t i = 0; i < count; ++i) problem_.centers_gradient[i] += center_[chunk * count + i];
  }

  const PairwiseBackward<T>& problem_;
  const PairwiseShape& shape_;
  std::int64_t chunks_, parameters_;
  T* query_ = nullptr;
  double *parameter_ = nullptr, *center_ = nullptr, *score_weight_ = nullptr;
};

}  // namespace cogwheel::HWY_NAMESPACE
