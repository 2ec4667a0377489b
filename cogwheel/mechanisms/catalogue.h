// Every mechanism by name.
//
// A row map stands in the catalogue once. A form (form.h) stands in it over softmax, under its own name, and over every
// other row map that reads its scores, as "<form>_<row map>": differential, differential_cog, symmetric_sigmoid.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/mechanisms/description.h"

namespace cogwheel {

enum class MechanismKind { row_map, form, dense };

struct Mechanism {
  MechanismKind kind;
  Description description;
  std::string_view form;             // its name; empty for a row map
  std::string_view member;           // the row map whose kernel runs: its own name for a row map, none for a dense form
  bool has_energy;                   // of the member: `energy_bias` adds to its exponent
  std::string_view operator_name;    // the operator that runs: its own name, or that of a layer without its ties
  int sub_heads = 1;                 // query heads per output head: 2 for a difference of two maps, else 1
  std::string_view subtracted = {};  // the row map that a form takes away from its member over the same heads, if any
  bool ties_keys = false;            // in a layer K = Q
  // Of the member's learnable scalars. Without defaults there are none or they are required; without initial values a
  // layer learns none.
  std::span<const double> parameter_defaults = {}, parameter_initial = {};
};

// The entries of mechanisms.def in their order: row maps, each form over softmax, then dense forms.
std::span<const Mechanism> mechanisms();
// The names of these.
std::vector<std::string> mechanism_names();

// These, then every form over every other row map that it combines with.
std::span<const Mechanism> all_mechanisms();

// The entry of that name among all of them, valid as long as the program runs. Throws UsageError with the nearest
// names: "<what>: expected …, got …".
const Mechanism& find_mechanism(std::string_view name, std::string_view what = "mechanism");

}  // namespace cogwheel
