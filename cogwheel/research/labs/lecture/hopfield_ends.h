// Where a network of Hopfield's ends: at a pattern, or at a state that is none; and what becomes of patterns of real
// numbers. Parts of the lab hopfield.
#pragma once
#include "cogwheel/research/labs/lab.h"

namespace cogwheel::labs {

std::vector<LabParameter> hopfield_end_parameters();

// Adds findings, charts and a table. Its random numbers are apart from those of the lab.
void add_hopfield_ends(const LabParameters& given, const LabHost& host, LabResult& result);

}  // namespace cogwheel::labs
