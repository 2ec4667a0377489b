#include "cogwheel/bindings/parameterized_pass.h"

#include <ATen/autocast_mode.h>
#include <torch/library.h>
#include <torch/nn/module.h>

#include <optional>
#include <utility>

#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/hooks/tensor_version.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/ops/support/find_operator.h"

namespace cogwheel::bindings {
namespace {

const nn::HookPlaceDescription& place_of(const nn::HookPoint& point) {
  return nn::hook_places()[static_cast<std::size_t>(point.place)];
}

// Hooks call this operator, whose kernel is Python's.
at::Tensor call_back(std::int64_t callback, const std::string& name, const at::Tensor& value) {
  static const auto handle =
      ops::find_operator<at::Tensor(std::int64_t, c10::string_view, const at::Tensor&)>("cogwheel::hook");
  return handle.call(callback, name, value);
}

bool autocasts_to_bfloat16(const torch::nn::Module& module) {
  const auto parameters = module.parameters();
  if (parameters.empty()) return false;
  const c10::DeviceType device = parameters.front().device().type();
  return at::autocast::is_autocast_available(device) && at::autocast::is_autocast_enabled(device) &&
         at::autocast::get_autocast_dtype(device) == at::kBFloat16;
}

template <class Chosen>
std::vector<std::string> names_of(const std::vector<nn::HookPoint>& points, const Chosen& chosen) {
  std::vector<std::string> names;
  for (const nn::HookPoint& point : points)
    if (chosen(point)) names.push_back(point.name());
  return names;
}

}  // namespace

ParameterizedPass::ParameterizedPass(Make make, at::Device device) : make_(std::move(make)) {
  std::vector<at::Tensor> asked;
  {
    const nn::TakeParameters recorded([&](at::IntArrayRef sizes) {
      return asked.emplace_back(at::empty(sizes, at::TensorOptions().device(device)).set_requires_grad(true));
    });
    pass_ = make_();
  }
  for (const at::Tensor& tensor : asked)
    for (const auto& parameter : pass_.module->named_parameters())
      if (parameter.value().is_same(tensor)) order_.push_back(parameter.key());
}

ParameterizedPass::ParameterizedPass(const ParameterizedPass& other, const Inputs& parameters)
    : make_(other.make_), order_(other.order_) {
  for (const auto& own : other.pass_.module->named_parameters()) {
    const at::Tensor given = runs::needed_input(parameters, own.key().c_str());
    if (given.sizes() != own.value().sizes() || !given.is_floating_point())
      throw UsageError(expected_got(own.key(), "floating-point numbers of shape " + shape_text(own.value().sizes()),
                                    std::string(at::toString(given.scalar_type())) + " " + shape_text(given.sizes())));
  }
  std::size_t index = 0;
  const nn::TakeParameters given([&](at::IntArrayRef) { return parameters.at(order_.at(index++)); });
  pass_ = make_();
}

ParameterizedPass::Inputs ParameterizedPass::parameters() const {
  Inputs parameters;
  for (const auto& parameter : pass_.module->named_parameters()) parameters.insert(parameter.key(), parameter.value());
  return parameters;
}

std::vector<std::string> ParameterizedPass::hook_names() const {
  return names_of(pass_.points, [](const nn::HookPoint&) { return true; });
}

std::vector<std::string> ParameterizedPass::read_only_hook_names() const {
  return names_of(pass_.points, [](const nn::HookPoint& point) { return point.read_only; });
}

std::vector<std::string> ParameterizedPass::on_request_hook_names() const {
  return names_of(pass_.points, [](const nn::HookPoint& point) { return place_of(point).on_request; });
}

at::Tensor ParameterizedPass::run(const Inputs& inputs, const std::vector<std::string>& hooked,
                                  std::int64_t callback) const {
  nn::Hooks hooks;
  for (const std::string& name : hooked) {
    const nn::HookPoint point = nn::find_hook_point(name, pass_.points);
    // A layer with two kinds of attention comes to a place twice.
    const auto call = [name, callback, memory = point.memory](const nn::HookPoint& at, const at::Tensor& value) {
      return at.memory == memory ? call_back(callback, name, value) : value;
    };
    const auto layer = point.layer < 0 ? std::nullopt : std::optional(point.layer);
    if (place_of(point).replaceable)
      hooks.replace(point.place, call, layer);
    else
      hooks.read(
          point.place,
          [call](const nn::HookPoint& at, const at::Tensor& value) {
            const std::int64_t before = nn::tensor_version(value);
            if (!call(at, value).is_same(value) || nn::tensor_version(value) != before)
              throw UsageError(expected_got(at.name(), "a hook that only reads", "one that returns or writes a value"));
          },
          layer);
  }
  const nn::BFloat16Products products(nn::BFloat16Products::enabled() || autocasts_to_bfloat16(module()));
  return pass_.run(inputs, {.hooks = hooked.empty() ? nullptr : &hooks});
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) { library.def("hook(int callback, str name, Tensor value) -> Tensor"); }

}  // namespace cogwheel::bindings
