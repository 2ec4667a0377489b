// Nodes of autograd's graph in the pointer that torch holds them by.
#pragma once
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace cogwheel::ops {

// std::shared_ptr of torch 2.11, whose nodes are no targets of c10::intrusive_ptr, which newer ones are.
template <class Recorded, class... Arguments>
auto make_node(Arguments&&... arguments) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, Recorded>)
    return c10::make_intrusive<Recorded>(std::forward<Arguments>(arguments)...);
  else  // its destructor walks the graph, however deep, without recursion
    return std::shared_ptr<Recorded>(new Recorded(std::forward<Arguments>(arguments)...), [](Recorded* node) {
      deleteNode(node);  // of torch::autograd
    });
}

}  // namespace cogwheel::ops
