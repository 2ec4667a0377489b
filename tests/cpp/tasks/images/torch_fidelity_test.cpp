// Distances of features against those of PyPI's torch-fidelity, where Python has it. Only its functions of features are
// loaded: the package itself imports torchvision, which does not load beside a torch that is built for CPUs.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/process/process.h"
#include "cogwheel/tasks/images/measures/frechet_distance.h"
#include "cogwheel/tasks/images/measures/kernel_distance.h"
#include "cogwheel/tasks/images/measures/precision_recall.h"
#include "support/temporary_folder.h"

namespace cogwheel::tasks::images::torch_fidelity_test {
namespace {

constexpr const char* script = R"(
import importlib.util, json, sys, types

spec = importlib.util.find_spec("torch_fidelity")
if spec is None:
    sys.exit("no torch_fidelity")
import numpy, torch

for name in ("torchvision", "tqdm", "torch_fidelity", "torch_fidelity.utils"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["tqdm"].tqdm = lambda values, **_: values
sys.modules["torch_fidelity"].__path__ = list(spec.submodule_search_locations)
sys.modules["torch_fidelity.utils"].__getattr__ = lambda name: None
from torch_fidelity import metric_fid, metric_kid, metric_prc

width = int(sys.argv[1])
first, second = (torch.from_numpy(numpy.fromfile(path).reshape(-1, width)) for path in sys.argv[2:4])
moments = [metric_fid.fid_features_to_statistics(each) for each in (first, second)]
found = metric_fid.fid_statistics_to_metric(*moments, False)
size = min(len(first), len(second))
found |= metric_kid.kid_features_to_metric(first[:size], second[:size], kid_subsets=1, kid_subset_size=size, verbose=False)
found |= metric_prc.prc_features_to_metric(first, second, verbose=False)
print(json.dumps(found))
)";

at::Tensor drawn(std::int64_t images, std::int64_t features, std::uint64_t seed) {
  torch::manual_seed(seed);
  // Above 0 and correlated, as those of a network.
  const at::Tensor mixture = torch::randn({features, features}, at::kDouble) / std::sqrt(static_cast<double>(features));
  return torch::relu(torch::randn({images, features}, at::kDouble).mm(mixture) + 0.5);
}

std::string written(const TemporaryFolder& folder, const char* name, const at::Tensor& features) {
  const auto* const bytes = static_cast<const char*>(features.const_data_ptr());
  write_file(folder.path() / name, std::string_view(bytes, features.nbytes()));
  return (folder.path() / name).string();
}

TEST(TorchFidelity, GivesTheSameDistances) {
  constexpr std::int64_t width = 24;
  const TemporaryFolder folder;
  const at::Tensor first = drawn(150, width, 1), second = drawn(120, width, 2) * 1.1 + 0.05;
  const Finished asked = run_program({COGWHEEL_TEST_PYTHON, "-c", script, std::to_string(width),
                                      written(folder, "first", first), written(folder, "second", second)});
  if (asked.errors.starts_with("no torch_fidelity")) GTEST_SKIP() << "no torch_fidelity beside " COGWHEEL_TEST_PYTHON;
  ASSERT_EQ(asked.status, 0) << asked.errors;
  const auto peer = nlohmann::json::parse(asked.output);

  const auto moments = [](const at::Tensor& features) {
    FeatureStatistics statistics;
    statistics.add(features);
    return statistics.moments();
  };
  const double fid = peer.at("frechet_inception_distance"), kid = peer.at("kernel_inception_distance_mean");
  EXPECT_NEAR(frechet_distance(moments(first), moments(second)).value, fid, 1e-9 * fid);
  // All images of both: the order in which a subset is drawn does not matter.
  const KernelDistance kernel = kernel_distance(first.narrow(0, 0, 120), second, {.subsets = 1, .subset_size = 120});
  EXPECT_NEAR(kernel.mean, kid, 1e-11 * std::abs(kid));
  const PrecisionRecall shares = precision_recall(first, second);
  EXPECT_NEAR(shares.precision, peer.at("precision").get<double>(), 1e-6);  // whose mean is in float32
  EXPECT_NEAR(shares.recall, peer.at("recall").get<double>(), 1e-6);
  EXPECT_GT(shares.precision, 0);
  EXPECT_LT(shares.precision, 1);
}

}  // namespace
}  // namespace cogwheel::tasks::images::torch_fidelity_test
