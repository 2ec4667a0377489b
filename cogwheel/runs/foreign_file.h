// Files that others would have written as safetensors: recognised, so that a message can say how to convert them.
#pragma once
#include <filesystem>
#include <string>

#include "cogwheel/runs/safetensors.h"

namespace cogwheel::runs {

// Where the file is a pickle or a zip archive of pickles or arrays, which are never opened because a pickle may run any
// code, throws Error with `conversion`, a line of Python that is run where its file is trusted.
void expect_no_pickle(const std::filesystem::path& path, const std::string& conversion);

// The same, and loads the safetensors file.
SafeTensors load_safetensors_or_say(const std::filesystem::path& path, const std::string& conversion);

}  // namespace cogwheel::runs
