// What the shared object of a mechanism holds, and how the host asks for it.
//
// A module is compiled against the headers of the Cogwheel that loads it, so C++ types may cross the border. The stamp
// is plain data and is read first: it names the version of Cogwheel, its headers, and the instruction set.
#pragma once
#include <span>
#include <string_view>

#include "cogwheel/attention/authoring/row_map_trace.h"
#include "cogwheel/attention/kernels/pairwise/pairwise.h"
#include "cogwheel/attention/kernels/pairwise/row_map_values.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/scalar_map.h"

namespace cogwheel::authoring {

struct MechanismModule {
  Description description;
  bool has_energy;
  std::span<const double> parameter_defaults, parameter_initial;
  ScalarMap scalar;
  PairwiseKernel<float> of_float;
  PairwiseKernel<double> of_double;
  RowMapValues<float> values_of_float;
  RowMapValues<double> values_of_double;
  RecordRowMap record;
};

// Names of the two symbols that a module exports: const char[], and void(MechanismModule*), which fills in what it is
// given.
inline constexpr const char* module_stamp_symbol = "cogwheel_mechanism_stamp";
inline constexpr const char* module_symbol = "cogwheel_mechanism_module";
// Of a law, which has no kernels: the same const char[], and void(RecurrentLaw*).
inline constexpr const char* recurrent_law_symbol = "cogwheel_recurrent_law";

}  // namespace cogwheel::authoring
