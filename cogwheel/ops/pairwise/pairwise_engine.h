// Pairwise attention by kernels of a device's own: an entry for each line of engines/engines.def.
//
// What holds on every device is said once, above the engines (pairwise_on_device.cpp): checks, calls without numbers,
// the memory of results, autocast. A device without an engine, and a call that its engine lacks something for, are
// composed of ATen's operators (pairwise_composed.h). So an engine may begin with the forward pass of a few
// mechanisms: gradients, second derivatives, tangents and everything else are there.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <span>
#include <string_view>
#include <vector>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/pairwise.h"

namespace cogwheel::ops {

// One call of cogwheel::pairwise, checked. An engine meets rows of contiguous width in query, key and value, contiguous
// parameters, and at least one number of output; there may be no keys.
struct PairwiseCall {
  at::Tensor query, key, value, parameters;
  std::string_view mechanism;  // a row map
  const PairwiseOptions& options;
  // Where defined, the keys in panels (ops/support/key_panels.h), for forward alone; `key` then has just their sizes.
  at::Tensor key_panels = {};
};

// Memory of the results of forward, in the dtypes and sizes that pairwise.h names; `statistics` has no numbers unless
// they are wanted.
struct PairwiseResults {
  at::Tensor output, shift, mass, statistics;
};

// The gradients of a call in the sizes of its inputs: memory for those of the tensors that every call has, of
// parameters filled with 0. Of the options an engine makes those that are wanted, in the compute dtype.
struct GradientsOfCall {
  at::Tensor query, key, value, parameters;
#define PAIRWISE_DIFFERENTIABLE(name, extent) at::Tensor name = {};
#include "cogwheel/ops/pairwise/pairwise_options.def"
};

// Some of the options.
struct PairwiseOptionSet {
#define PAIRWISE_OPTION(type, name, initial) bool name = false;
#define PAIRWISE_DIFFERENTIABLE(name, extent) bool name = false;
#define PAIRWISE_TENSOR(name) bool name = false;
#include "cogwheel/ops/pairwise/pairwise_options.def"
};

constexpr PairwiseOptionSet every_pairwise_option() {
  PairwiseOptionSet all;
#define PAIRWISE_OPTION(type, name, initial) all.name = true;
#define PAIRWISE_DIFFERENTIABLE(name, extent) all.name = true;
#define PAIRWISE_TENSOR(name) all.name = true;
#include "cogwheel/ops/pairwise/pairwise_options.def"
  return all;
}

struct PairwiseEngine {
  at::DeviceType device;

  // What its kernels compute; any other call is composed. `options` are those that they read: an option that is added
  // to the list one day is composed until the engine names it.
  std::vector<at::ScalarType> dtypes;  // of query, key and value
  PairwiseOptionSet options = {};
  bool weights = false;      // values that stand for the identity
  bool statistics = false;   // of the weights of each row
  bool interpreted = false;  // in place of the CPU's own, where COGWHEEL_ENGINE asks for it
  bool key_panels = false;   // keys in panels, of scores that are products: caches keep them so for this engine
  // What a device lacks for all of them, for people; empty if nothing. Null: nothing.
  std::string_view (*lacks)(c10::DeviceIndex) = nullptr;
  // Whether they compute this call, of which they have all of the above; null: every one.
  bool (*serves)(const PairwiseCall&) = nullptr;

  // Called with the device of the query as the current one, and without autocast. A step of decoding is a call with few
  // queries. Keys that a query does not see reach nothing of its row, whatever they hold, NaN too. Of `shift` and
  // `mass` other passes read what attention/mechanisms/contract.h says.
  void (*forward)(const PairwiseCall&, const WantedOutputs&, const PairwiseResults&) = nullptr;

  // Of the calls that forward serves. Null: composed.
  void (*backward)(const PairwiseCall&, const at::Tensor& gradient, const PairwiseSaved&, const WantedGradients&,
                   GradientsOfCall&) = nullptr;
  void (*mixture_statistics)(const PairwiseCall&, const MixtureMembers&, bool argmax,
                             const at::Tensor& statistics) = nullptr;

  // What `cogwheel list kernels` shows of it.
  std::vector<KernelEntry> (*kernels)() = nullptr;
};

// One for each line of the list.
std::span<const PairwiseEngine* const> pairwise_engines();

// Null if the device has none, or must not use it (COGWHEEL_ENGINE).
const PairwiseEngine* pairwise_engine(at::DeviceType device);

// What the engine lacks for the call, for people; empty if nothing.
std::string_view lacking(const PairwiseEngine& engine, const PairwiseCall& call);

}  // namespace cogwheel::ops
