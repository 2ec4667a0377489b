// Every mechanism by name.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/mechanisms/description.h"

namespace cogwheel {

enum class MechanismKind { row_map, mixture, tied };

struct Mechanism {
  MechanismKind kind;
  Description description;
  std::string_view member;  // the row map whose kernel runs: its own name for a row map
  int sub_heads;            // query heads per output head: 2 for a difference of two maps, else 1
};

// In the order of mechanisms.def.
std::span<const Mechanism> mechanisms();
std::vector<std::string> mechanism_names();

// Throws UsageError with the nearest names: "<what>: expected …, got …".
const Mechanism& find_mechanism(std::string_view name, std::string_view what = "mechanism");

}  // namespace cogwheel
