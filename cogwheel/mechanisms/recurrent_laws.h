// Every recurrent mechanism by name. A new one is its header and its place here.
#pragma once
#include <array>

#include "cogwheel/mechanisms/recurrent/abc.h"
#include "cogwheel/mechanisms/recurrent/cosformer.h"
#include "cogwheel/mechanisms/recurrent/dfw.h"
#include "cogwheel/mechanisms/recurrent/gated_rfa.h"
#include "cogwheel/mechanisms/recurrent/gla.h"
#include "cogwheel/mechanisms/recurrent/hgrn2.h"
#include "cogwheel/mechanisms/recurrent/linear_attention.h"
#include "cogwheel/mechanisms/recurrent/mamba2.h"
#include "cogwheel/mechanisms/recurrent/mlstm.h"
#include "cogwheel/mechanisms/recurrent/retnet.h"
#include "cogwheel/mechanisms/recurrent/rwkv6.h"

namespace cogwheel {

inline constexpr std::array recurrent_laws{
    LinearAttention::law, Cosformer::law, RetNet::law,   Mamba2::law, Gla::law, Dfw::law,
    Rwkv6::law,           Hgrn2::law,     GatedRfa::law, Mlstm::law,  Abc::law};

// Null where there is none of that name.
constexpr const RecurrentLaw* find_recurrent_law(std::string_view name) {
  for (const RecurrentLaw& law : recurrent_laws)
    if (law.name == name) return &law;
  return nullptr;
}

}  // namespace cogwheel
