// Which of many things are held out, decided by what they are and not by where they stand.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace cogwheel {

// For each origin whether it is held out: those whose SHA-256 comes first, until they make up a tenth, but not all
// different ones. Equal origins stay together, and one more or less moves few others.
std::vector<bool> held_out_tenth(std::span<const std::string> origins);

}  // namespace cogwheel
