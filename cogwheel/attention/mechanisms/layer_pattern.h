// The mechanisms of a model's layers: one name, or a hybrid such as "gla*3+softmax", which repeats down the layers.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"

namespace cogwheel {

// Name by name, without looking any up: what a record of mechanisms that are not loaded needs. Throws UsageError where
// the text is no such list: "<what>: expected …, got …".
std::vector<std::string> names_of_pattern(std::string_view pattern, std::string_view what = "mechanism");

class LayerPattern {
 public:
  // Throws UsageError also where a mechanism is unknown, and where users defined two of them or more: a record names
  // one.
  explicit LayerPattern(std::string_view pattern, std::string_view what = "mechanism");

  const Mechanism& at(std::int64_t layer) const;
  std::int64_t period() const { return period_; }  // the layers after which it repeats
  // Each in its place, once.
  std::vector<const Mechanism*> mechanisms() const;

  // "Gated linear attention × 3 + Softmax", and the formulas alike; of one mechanism alone its own.
  std::string title() const;
  std::string formula() const;
  std::string_view definition() const { return definition_; }  // of a user's mechanism; else empty

 private:
  struct Part {
    const Mechanism* mechanism;
    std::int64_t layers;
  };
  std::vector<Part> parts_;
  std::int64_t period_ = 0;
  std::string_view definition_;
};

// Whether the keys of any layer are its queries; mechanisms that are not loaded count as others.
bool ties_keys(std::string_view pattern);

// The pattern where * and + have a meaning, as in the name of a folder: "gla.3-softmax". Names have neither . nor -.
std::string name_in_path(std::string_view pattern);

}  // namespace cogwheel
