// That ranks make the same call: exchanges of other sizes would end in a crash, or never. Asked where each rank has a
// program of its own, as users do; ranks of one training run have compared their configurations.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "cogwheel/distributed/group.h"
#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/ops/recurrent/recurrent.h"

namespace cogwheel::distributed {

// Collective. Throws c10::ValueError on every rank unless the tensors have the same sizes and types on all; those that
// are not there are undefined.
void expect_alike(const Group& group, const std::string& operation, const std::vector<at::Tensor>& tensors);
// Of a call of `attention`, or `recurrent`, with these tensors.
void expect_alike(const Group& group, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const ops::AttentionOptions& options);
void expect_alike(const Group& group, const std::optional<at::Tensor>& query, const std::optional<at::Tensor>& key,
                  const at::Tensor& value, const ops::RecurrentOptions& options);

}  // namespace cogwheel::distributed
