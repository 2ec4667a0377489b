#include "cogwheel/cli/operator_times.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace cogwheel::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

// name, dtype, sizes
using Operator = std::tuple<std::string, std::string, std::vector<std::vector<std::int64_t>>>;

struct Sum {
  std::int64_t calls = 0;
  double seconds = 0;
  std::size_t bytes = 0;
};

std::size_t bytes_of(const c10::IValue& value) {
  std::size_t sum = 0;
  if (value.isTensor() && value.toTensor().defined()) sum = value.toTensor().nbytes();
  if (value.isTensorList())
    for (const at::Tensor& each : value.toTensorVector())
      if (each.defined()) sum += each.nbytes();
  return sum;
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Inputs are there only while a call begins, outputs only when it ends.
std::size_t bytes_of_inputs(const at::RecordFunction& function) {
  const auto schema = function.operator_schema();
  const auto inputs = function.inputs();
  std::size_t sum = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    sum += bytes_of(inputs[i]) * (schema && i < schema->arguments().size() && writes(schema->arguments()[i]) ? 2 : 1);
  return sum;
}

// None: the call makes a view, which moves nothing.
std::optional<std::size_t> bytes_of_outputs(const at::RecordFunction& function) {
  const auto schema = function.operator_schema();
  std::size_t sum = 0;
  for (std::size_t i = 0; i < function.outputs().size(); ++i) {
    const bool aliased = schema && i < schema->returns().size() && schema->returns()[i].alias_info() != nullptr;
    if (aliased && !writes(schema->returns()[i])) return std::nullopt;
    if (!aliased) sum += bytes_of(function.outputs()[i]);
  }
  return sum;
}

Operator operator_of(const at::RecordFunction& function) {
  Operator found{function.name(), "", {}};
  for (const c10::IValue& input : function.inputs()) {
    if (!input.isTensor() || !input.toTensor().defined()) continue;
    const at::Tensor& tensor = input.toTensor();
    if (std::get<1>(found).empty()) std::get<1>(found) = c10::toString(tensor.scalar_type());
    std::get<2>(found).push_back(tensor.sizes().vec());
  }
  return found;
}

struct Call : at::ObserverContext {
  explicit Call(const at::RecordFunction& function)
      : called(operator_of(function)), bytes(bytes_of_inputs(function)), begin(Clock::now()) {}

  Operator called;
  std::size_t bytes;
  Clock::time_point begin;
  Clock::duration within{};  // operators that this one calls
  Call* caller = nullptr;
};

thread_local Call* innermost = nullptr;

// A callback is a plain function, which has nothing but what is global.
std::mutex sums_mutex;
std::map<Operator, Sum> sums;

}  // namespace

OperatorTimes::OperatorTimes() {
  const auto begin = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    auto call = std::make_unique<Call>(function);
    call->caller = std::exchange(innermost, call.get());
    return call;
  };
  const auto end = [](const at::RecordFunction& function, at::ObserverContext* context) {
    auto* const call = static_cast<Call*>(context);
    if (call == nullptr) return;  // it could not be begun
    const Clock::duration whole = Clock::now() - call->begin;
    innermost = call->caller;
    if (innermost != nullptr) innermost->within += whole;
    const std::lock_guard<std::mutex> lock(sums_mutex);
    Sum& sum = sums[std::move(call->called)];
    sum.seconds += std::chrono::duration<double>(whole - call->within).count();
    if (2 * call->within > whole) return;  // it has others do the work
    ++sum.calls;
    if (const auto outputs = bytes_of_outputs(function)) sum.bytes += call->bytes + *outputs;
  };
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end).needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION}));
}

OperatorTimes::~OperatorTimes() { at::removeCallback(handle_); }

std::string OperatorTimes::take_json() {
  std::map<Operator, Sum> taken;
  {
    const std::lock_guard<std::mutex> lock(sums_mutex);
    taken = std::exchange(sums, {});
  }
  Json all = Json::array();
  for (const auto& [key, sum] : taken) {
    const auto& [name, dtype, sizes] = key;
    all.push_back({{"name", name},
                   {"dtype", dtype},
                   {"sizes", sizes},
                   {"calls", sum.calls},
                   {"seconds", sum.seconds},
                   {"bytes", sum.bytes}});
  }
  return all.dump();
}

}  // namespace cogwheel::cli
