// Every mechanism by name.
//
// A row map stands in the catalogue once. A form (form.h) stands in it over softmax, under its own name, and over every
// other row map that reads its scores, as "<form>_<row map>": differential, differential_cog, symmetric_sigmoid.
// Row maps that users bring while the program runs stand after the built-in ones, with the same forms.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/mechanisms/description.h"

namespace cogwheel {

struct ScalarMap;  // scalar_map.h

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
  const ScalarMap* scalar = nullptr;  // the member's functions of numbers; none for a dense form
  std::string_view definition = {};   // of a member that a user brought: what brings it again. Empty for built-in ones
};

// The entries of mechanisms.def in their order: row maps, each form over softmax, then dense forms.
std::span<const Mechanism> mechanisms();
// The names of these.
std::vector<std::string> mechanism_names();

// These, then every form over every other row map that it combines with, then what users brought. Entries never move;
// more may follow while others read.
std::span<const Mechanism> all_mechanisms();

// A row map that a user brings. `definition` tells it from others of its name; texts are copied.
struct AddedMap {
  Description description;
  bool has_energy = false;
  std::span<const double> parameter_defaults = {}, parameter_initial = {};
  const ScalarMap* scalar = nullptr;  // copied
  std::string_view definition;
};

// Adds the map and every form over it, and returns its entry; the one that is there where the same definition came
// before. Any thread may call. Throws UsageError where the name, or that of a form over it, is taken by another.
const Mechanism& add_mechanism(const AddedMap& map);

// Throws what add_mechanism would. True where the same definition is there already.
bool is_added(std::string_view name, std::string_view definition);

// The row maps that add_mechanism added.
std::vector<const Mechanism*> added_mechanisms();

// The entry of that name among all of them, valid as long as the program runs. Throws UsageError with the nearest
// names: "<what>: expected …, got …".
const Mechanism& find_mechanism(std::string_view name, std::string_view what = "mechanism");

}  // namespace cogwheel
