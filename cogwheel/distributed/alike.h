// That ranks make the same call: exchanges of other sizes would end in a crash, or never.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "cogwheel/distributed/group.h"

namespace cogwheel::distributed {

// Collective. Throws c10::ValueError on every rank unless the tensors have the same sizes and types on all; those that
// are not there are undefined.
void expect_alike(const Group& group, const std::string& operation, const std::vector<at::Tensor>& tensors);

}  // namespace cogwheel::distributed
