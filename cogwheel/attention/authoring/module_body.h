// The end of a module's one translation unit: checks that AuthoredMap is a row map, and exports it. Read inside the
// region of a target, after the map; COGWHEEL_MODULE_STAMP is a string.
#pragma once
#include "cogwheel/attention/kernels/pairwise/cpu/pairwise_cpu.h"
#include "cogwheel/attention/kernels/pairwise/evaluate_row_map.h"

namespace cogwheel::authoring {

// One by one, so that a message names the one thing that is missing.
template <class Map>
concept HasDescription = requires {
  Description(Map::description);
};
template <class Map>
concept HasTerms = requires(Map map, double s, Row<double> row, Theta<Map, double> theta) {
  map.terms(s, row, theta);
}
|| requires(Map map, double s, Row<double> row) { map.terms(s, row); };
template <class Map>
concept HasNormalizer = requires(Map map, double mass, Row<double> row, Theta<Map, double> theta) {
  map.normalizer(mass, row, theta);
}
|| requires(Map map, double mass, Row<double> row) { map.normalizer(mass, row); };

static_assert(HasDescription<AuthoredMap>, "expected a `description`, got none");
static_assert(HasTerms<AuthoredMap>, "expected `terms(V s, Row<V> row)` for f and g, got none that can be called");
static_assert(HasNormalizer<AuthoredMap>,
              "expected `normalizer(V mass, Row<V> row)`, or NormalizedByMass as base, got none that can be called");
// Nothing calls a function `slopes`, the former name of `derivatives`: refuse it rather than ignore it silently.
template <class Map>
concept HasSlopes = requires(Map map, double s, Row<double> row, Theta<Map, double> theta) {
  map.slopes(s, row, theta);
}
|| requires(Map map, double s, Row<double> row) { map.slopes(s, row); };
static_assert(!HasSlopes<AuthoredMap>, "expected f′ and g′ as a function `derivatives`, got one named `slopes`");
static_assert(RowMap<AuthoredMap, double>, "expected `terms` to return Terms<V> and `normalizer` to return V");
static_assert(RowMap<AuthoredMap, HWY_NAMESPACE::Vector<float>>,
              "expected every function to be a template over V that takes SIMD registers too");
static_assert(RowMap<AuthoredMap, Traced>,
              "expected every function to be a template over V that takes what records it (traced_lane.h) too");

namespace {

template <class Map>
constexpr std::span<const double> module_defaults() {
  if constexpr (requires { Map::parameter_defaults; })
    return Map::parameter_defaults;
  else
    return {};
}

template <class Map>
constexpr std::span<const double> module_initial() {
  if constexpr (requires { Map::parameter_initial; })
    return Map::parameter_initial;
  else
    return {};
}

constexpr bool fits(std::span<const double> values) {
  return values.empty() || values.size() == parameter_count<AuthoredMap>;
}
static_assert(fits(module_defaults<AuthoredMap>()) && fits(module_initial<AuthoredMap>()),
              "expected one number in `parameter_defaults` and `parameter_initial` for each of `parameter_names`, got "
              "another count");

}  // namespace
}  // namespace cogwheel::authoring

extern "C" {
__attribute__((visibility("default"))) extern const char cogwheel_mechanism_stamp[];
const char cogwheel_mechanism_stamp[] = COGWHEEL_MODULE_STAMP;

__attribute__((visibility("default"))) void cogwheel_mechanism_module(cogwheel::authoring::MechanismModule* module) {
  using namespace cogwheel;
  using namespace cogwheel::authoring;
  using Map = AuthoredMap;
  *module = {.description = Map::description,
             .has_energy = EnergyMap<Map, double>,
             .parameter_defaults = module_defaults<Map>(),
             .parameter_initial = module_initial<Map>(),
             .scalar = scalar_map<Map>(),
             .of_float = HWY_NAMESPACE::pairwise_kernel_of<Map, float>,
             .of_double = HWY_NAMESPACE::pairwise_kernel_of<Map, double>,
             .values_of_float = row_map_values_of<Map, float>(),
             .values_of_double = row_map_values_of<Map, double>(),
             .record = record_row_map<Map>};
}
}
