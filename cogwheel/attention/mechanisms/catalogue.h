// Every mechanism by name.
//
// The catalogue lists each row map once. It lists a form (form.h) over softmax under the form's own name, and over
// every other row map that reads its scores as "<form>_<row map>": differential, differential_cog, symmetric_sigmoid.
// Row maps that users define while the program runs follow the built-in ones, with the same forms.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cogwheel/attention/mechanisms/description.h"

namespace cogwheel {

struct RecurrentLaw;  // recurrent_contract.h
struct ScalarMap;     // scalar_map.h

// A row map, or a form over one.
struct PairwiseMechanism {
  std::string_view form;             // its name; empty for a row map
  std::string_view member;           // the row map whose kernel runs: its own name for a row map
  bool has_energy = false;           // of the member: `energy_bias` adds to its exponent
  bool takes_cosines = false;        // the score is q·k / (|q||k|), without a scale
  int sub_heads = 1;                 // query heads per output head: 2 for a difference of two maps, else 1
  std::string_view subtracted = {};  // the row map that a form subtracts from its member over the same heads, if any
  std::span<const double> parameter_defaults = {};  // of the member's scalars; if empty, users must give them
  const ScalarMap* scalar = nullptr;                // the member as functions of numbers

  bool is_form() const { return !form.empty(); }
};

// A function of the whole score matrix, by matrix products.
struct MatrixMechanism {};

// Attention with a state.
struct RecurrentMechanism {
  const RecurrentLaw* law = nullptr;
};

struct Mechanism {
  Description description;
  std::variant<PairwiseMechanism, MatrixMechanism, RecurrentMechanism> family;
  bool is_layer = false;           // it makes queries and keys itself, so no operator has its name
  std::string_view operator_name;  // the operator that runs: its own name; of a layer, that of the untied mechanism
  bool ties_keys = false;          // in a layer K = Q
  std::span<const double> parameter_initial = {};  // of learnable scalars; if empty, a layer learns none
  std::string_view definition = {};                // of a user's own, to define it again; empty for built-in ones

  const PairwiseMechanism* pairwise() const { return std::get_if<PairwiseMechanism>(&family); }  // null for others
  bool is_row_map() const { return pairwise() != nullptr && !pairwise()->is_form(); }
  bool is_matrix() const { return std::holds_alternative<MatrixMechanism>(family); }
  const RecurrentLaw* recurrent() const {  // null for others
    const auto* found = std::get_if<RecurrentMechanism>(&family);
    return found != nullptr ? found->law : nullptr;
  }
  bool takes_cosines() const { return pairwise() != nullptr && pairwise()->takes_cosines; }
  int sub_heads() const { return pairwise() != nullptr ? pairwise()->sub_heads : 1; }
};

// The entries of mechanisms.def in their order: row maps, each form over softmax, dense mechanisms, then those with
// a state.
std::span<const Mechanism> mechanisms();
// The names of these.
std::vector<std::string> mechanism_names();

// These, then every form over every other row map that it combines with, then what users defined. Entries never move;
// more may be added while other threads read.
std::span<const Mechanism> all_mechanisms();

// A row map that a user defines. `definition` distinguishes it from others of the same name; texts are copied.
struct AddedMap {
  Description description;
  bool has_energy = false;
  std::span<const double> parameter_defaults = {}, parameter_initial = {};
  const ScalarMap* scalar = nullptr;  // copied
  std::string_view definition;
};

// Adds the map and every form over it, and returns its entry; if the same definition was added before, that entry. Any
// thread may call. Throws UsageError where the name, or that of a form over it, is taken by another mechanism.
const Mechanism& add_mechanism(const AddedMap& map);

// Whether the same definition was added already. Throws what add_mechanism would.
bool is_added(std::string_view name, std::string_view definition);

// The row maps and laws that users added.
std::vector<const Mechanism*> added_mechanisms();

// The entry of that name among all of them, by one hash look-up, valid as long as the program runs; null if there is
// none.
const Mechanism* mechanism_or_null(std::string_view name);

// The same, but throws UsageError with the nearest names: "<what>: expected …, got …".
const Mechanism& find_mechanism(std::string_view name, std::string_view what = "mechanism");

// The law of a mechanism with a state; null if none has that name.
const RecurrentLaw* find_recurrent_law(std::string_view name);

}  // namespace cogwheel
