// The names of alignments: how a step of a decoder looks at an encoded source.
//
// Encoder states h_j of source tokens j = 0 … S − 1, decoder state s; score e_j, weights a = row map(e), context
// c = Σ_j a_j h_j:
//
//   bahdanau       e_j = v·tanh(W s + U h_j), s the state before the step
//   luong_dot      e_j = s·h_j, s the state of the step, here and below
//   luong_general  e_j = s·W h_j
//   luong_concat   e_j = v·tanh(W s + U h_j), that is v·tanh(W_a [s; h_j])
//   …_local_m      of a Luong kind: only keys |j − p| ≤ D around the step's own number, p = t
//   …_local_p      around p = S·sigmoid(v_p·tanh(W_p s)), each weight times exp(−(j − p)²/(2σ²)), σ = D/2
//   none           no attention
//   Bahdanau, Cho, Bengio, "Neural Machine Translation by Jointly Learning to Align and Translate" (2014); Luong, Pham,
//   Manning, "Effective Approaches to Attention-based Neural Machine Translation" (2015).
//
// A kind alone has softmax as its row map; "<kind>_<row map>" has another one of the catalogue, users' own among them,
// or a form over one that needs no second head: bahdanau_cog, luong_general_local_p_sigmoid, luong_dot_centered. A map
// of cosines goes with dot and general scores. Kernels know nothing of this: an alignment is attention with a score and
// a window (nn/alignment.h).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"

namespace cogwheel {

enum class AlignmentScore { none, additive, dot, general };
enum class AlignmentWindow { whole, around_step, around_prediction };

struct AlignmentKind {
  std::string_view name, title;
  AlignmentScore score;
  AlignmentWindow window = AlignmentWindow::whole;
  bool before_step = false;  // s is the state before the step
};

// All kinds, in the order of the table above.
std::span<const AlignmentKind> alignment_kinds();

struct Alignment {
  const AlignmentKind* kind = nullptr;
  const Mechanism* map = nullptr;  // null for `none`

  bool is_none() const { return kind->score == AlignmentScore::none; }
  std::string name() const;
  std::string title() const;  // "Luong general, local-p, Cog"
};

// Throws UsageError with the nearest names: "<what>: expected …, got …".
Alignment find_alignment(std::string_view name, std::string_view what = "alignment");

// Every name, kinds over softmax first. Users' maps are among them.
std::vector<std::string> alignment_names();

}  // namespace cogwheel
