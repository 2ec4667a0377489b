#include "cogwheel/runs/forecast/live_tensors.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace cogwheel::runs {
namespace {

thread_local LiveTensors* observer = nullptr;

void take_value(const c10::IValue& value) {
  if (value.isTensor()) {
    observer->take(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) observer->take(tensor);
  } else if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) take_value(element);
  }
}

std::unique_ptr<at::ObserverContext> started(const at::RecordFunction&) { return nullptr; }

// Below autograd operators are parts of another one: in a process with Python, which describes some of them by others,
// these are many, and tensors between them are none that the operator itself would make.
bool is_part_of_an_operator() {
  return c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality);
}

void ended(const at::RecordFunction& function, at::ObserverContext*) {
  if (observer == nullptr || is_part_of_an_operator()) return;
  for (const c10::IValue& value : function.outputs()) take_value(value);
  observer->count();
}

}  // namespace

LiveTensors::LiveTensors() {
  if (observer != nullptr) throw std::logic_error("LiveTensors: expected one at a time, got two");
  observer = this;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(started, ended).needsOutputs(true).scopes({at::RecordScope::FUNCTION}));
}

LiveTensors::~LiveTensors() {
  at::removeCallback(handle_);
  observer = nullptr;
}

void LiveTensors::leave_out(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  if (met_.insert(tensor.storage().unsafeGetStorageImpl()).second)
    kept_.push_back(tensor.storage().getWeakStorageImpl());
}

void LiveTensors::take(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (!met_.insert(storage).second) return;
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  live_.push_back(
      {tensor.storage().getWeakStorageImpl(), {storage, bytes, tensor.dim() > 0 ? tensor.sizes().back() : 1}});
  bytes_ += bytes;
}

void LiveTensors::count() {
  const auto gone =
      std::stable_partition(live_.begin(), live_.end(), [](const Tracked& each) { return !each.storage.expired(); });
  for (auto each = gone; each != live_.end(); ++each) {
    bytes_ -= each->made.bytes;
    kept_.push_back(std::move(each->storage));
  }
  live_.erase(gone, live_.end());
  if (bytes_ <= peak_) return;
  peak_ = bytes_;
  at_peak_.clear();
  for (const Tracked& each : live_) at_peak_.push_back(each.made);
}

void LiveTensors::begin() {
  peak_ = 0;
  at_peak_.clear();
}

}  // namespace cogwheel::runs
