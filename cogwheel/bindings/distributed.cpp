// Attention over ranks as operators, for python/cogwheel/distributed.py. A group is its name, this rank and how many
// there are.
#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cogwheel/distributed/alike.h"
#include "cogwheel/distributed/attention.h"
#include "cogwheel/distributed/recurrent.h"
#include "cogwheel/ops/pairwise/attention_schema.h"
#include "cogwheel/ops/recurrent/recurrent_schema.h"

namespace cogwheel::bindings {
namespace {

using distributed::CutRanks;

CutRanks ranks_of(std::string_view group, std::int64_t rank, std::int64_t ranks, std::string_view layout) {
  return {distributed::Group(std::string(group), rank, ranks), distributed::SequenceCut(layout, rank, ranks)};
}

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::string_view group,
                     std::int64_t rank, std::int64_t ranks, std::string_view layout, std::string_view method,
                     std::string_view mechanism, const ops::AttentionOptions& options) {
  const CutRanks cut = ranks_of(group, rank, ranks, layout);
  distributed::expect_alike(cut.group, query, key, value, options);
  return distributed::attention(cut, method, query, key, value, mechanism, options);
}

std::tuple<at::Tensor, at::Tensor> attention_statistics(const at::Tensor& query, const at::Tensor& key,
                                                        const at::Tensor& value, bool argmax, std::string_view group,
                                                        std::int64_t rank, std::int64_t ranks, std::string_view layout,
                                                        std::string_view method, std::string_view mechanism,
                                                        const ops::AttentionOptions& options) {
  const CutRanks cut = ranks_of(group, rank, ranks, layout);
  distributed::expect_alike(cut.group, query, key, value, options);
  return distributed::attention_statistics(cut, method, query, key, value, argmax, mechanism, options);
}

std::tuple<at::Tensor, std::vector<at::Tensor>> recurrent(const std::optional<at::Tensor>& query,
                                                          const std::optional<at::Tensor>& key, const at::Tensor& value,
                                                          std::string_view group, std::int64_t rank, std::int64_t ranks,
                                                          std::string_view layout, std::string_view method,
                                                          std::string_view mechanism,
                                                          const ops::RecurrentOptions& options) {
  const CutRanks cut = ranks_of(group, rank, ranks, layout);
  distributed::expect_alike(cut.group, query, key, value, options);
  return distributed::recurrent(cut, method, query, key, value, mechanism, options);
}

at::Tensor shard(const at::Tensor& tensor, std::int64_t dim, std::int64_t rank, std::int64_t ranks,
                 std::string_view layout) {
  return distributed::SequenceCut(layout, rank, ranks).part(tensor, at::maybe_wrap_dim(dim, tensor.dim()), rank);
}

at::Tensor unshard(const at::Tensor& tensor, std::int64_t dim, std::string_view group, std::int64_t rank,
                   std::int64_t ranks, std::string_view layout) {
  const CutRanks cut = ranks_of(group, rank, ranks, layout);
  const std::int64_t tokens = at::maybe_wrap_dim(dim, tensor.dim());
  distributed::expect_alike(cut.group, "unshard", {tensor});
  cut.cut.places(rank, tensor.size(tokens));
  return distributed::all_tokens(cut, tensor, tokens, "a tensor to unshard");
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  const std::string ranks = "str group, int rank, int ranks, str layout, str method";
  library.def(
      ops::attention_schema("distributed_attention", "Tensor query, Tensor key, Tensor value, " + ranks, "Tensor")
          .c_str(),
      ops::Unbundled<attention>::call);
  library.def(ops::attention_schema("distributed_attention_statistics",
                                    "Tensor query, Tensor key, Tensor value, bool argmax, " + ranks,
                                    "(Tensor output, Tensor statistics)")
                  .c_str(),
              ops::Unbundled<attention_statistics>::call);
  library.def(ops::recurrent_schema("distributed_recurrent", "Tensor? query, Tensor? key, Tensor value, " + ranks,
                                    "(Tensor output, Tensor[] state)")
                  .c_str(),
              ops::Unbundled<recurrent>::call);
  library.def("shard(Tensor tensor, int dim, int rank, int ranks, str layout) -> Tensor", ops::Unbundled<shard>::call);
  library.def("unshard(Tensor tensor, int dim, str group, int rank, int ranks, str layout) -> Tensor",
              ops::Unbundled<unshard>::call);
}

}  // namespace cogwheel::bindings
