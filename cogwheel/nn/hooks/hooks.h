// Reads and replaces the intermediate values of a model, at the places of hook_places.def.
//
//   Hooks hooks;
//   hooks.read(HookPlace::pattern, [&](const HookPoint& at, const at::Tensor& weights) { maps[at.layer] = weights; });
//   hooks.replace(HookPlace::heads, [](const HookPoint&, const at::Tensor& z) { return at::zeros_like(z); }, 3);
//   model->forward(tokens, {.hooks = &hooks});
//
// A pass without hooks costs nothing extra; one with hooks computes only what is asked for, in the layers for which it
// is. Gradients flow through the replacements. A pass whose values hooks only read, or replace by equal ones, gives the
// bits of one without hooks.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::nn {

enum class HookPlace {
#define HOOK_PLACE(place, owner, name, shape, replaceable, on_request, meaning) place,
#include "cogwheel/nn/hooks/hook_places.def"
};

enum class HookOwner { model, layer };

struct HookPlaceDescription {
  HookOwner owner;
  std::string_view name;  // of a layer's place without "blocks.<layer>."
  std::string_view shape;
  bool replaceable;
  bool on_request;  // computed only where it is asked for by name
  std::string_view meaning;
};

// In the order of a pass: place `p` is entry static_cast<std::size_t>(p).
std::span<const HookPlaceDescription> hook_places();

// One of several places with the same name.
struct HookPoint {
  HookPlace place{};
  std::int64_t layer = -1;  // from 0; −1 outside of layers
  bool memory = false;      // in a layer that attends both to its own sequence and to a memory: the latter attention
  bool read_only = false;   // of the points of a model: no value can take its place there

  std::string name() const;  // "blocks.3.attn.hook_q"
};

// The point of that name among those of a model. Throws UsageError with the nearest names.
HookPoint find_hook_point(std::string_view name, std::span<const HookPoint> points);

class Hooks {
 public:
  using Reader = std::function<void(const HookPoint& at, const at::Tensor& value)>;
  using Replacer = std::function<at::Tensor(const HookPoint& at, const at::Tensor& value)>;
  using Supplier = std::function<at::Tensor(const HookPoint& at)>;

  // Functions at one place run in the order in which they came. Without a layer: in every layer.
  void read(HookPlace place, Reader reader, std::optional<std::int64_t> layer = {});
  // The returned tensor replaces the value; the pass throws UsageError if its shape, type or device differs. The
  // function gets a tensor of its own, a copy unless nothing else holds the value, and may write into it and return it.
  // Throws UsageError for a place that can only be read.
  void replace(HookPlace place, Replacer replacer, std::optional<std::int64_t> layer = {});

  // The value in the place of one that is then not computed at all: of attention_output and feed_forward_output. It
  // must have the shape that the other would have. Throws UsageError for another place.
  void supply(HookPlace place, Supplier supplier, std::optional<std::int64_t> layer = {});

  bool wants(HookPlace place, std::int64_t layer) const;
  bool replaces(HookPlace place, std::int64_t layer) const;
  // The value that the pass continues with: the given one unless a function replaces it.
  at::Tensor operator()(const HookPoint& at, at::Tensor value) const;
  // Whether `after`, what hooks made of `before` there, has other numbers.
  bool changed(HookPlace place, std::int64_t layer, const at::Tensor& before, const at::Tensor& after) const;
  // That of the last supplier for this point; undefined where there is none.
  at::Tensor supplied(const HookPoint& at) const;

 private:
  struct Function {
    std::optional<std::int64_t> layer;
    Replacer call;
    bool replaces;
    bool is_for(std::int64_t at) const { return !layer || *layer == at; }
  };
  struct Supply {
    HookPlace place;
    std::optional<std::int64_t> layer;
    Supplier call;
  };
  static constexpr std::size_t places = 0
#define HOOK_PLACE(place, owner, name, shape, replaceable, on_request, meaning) +1
#include "cogwheel/nn/hooks/hook_places.def"
      ;
  const std::vector<Function>& at_place(HookPlace place) const { return functions_[static_cast<std::size_t>(place)]; }

  std::array<std::vector<Function>, places> functions_;
  std::vector<Supply> supplies_;
};

}  // namespace cogwheel::nn
