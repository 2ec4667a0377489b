// Answers what a page asks of one or two runs: maps of heads, differences of maps, next tokens, with heads as they are
// or edited. Passes are kept, so that the large map of a head costs none.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cogwheel/serve/next_tokens.h"
#include "cogwheel/serve/view_request.h"
#include "cogwheel/serve/viewed_pass.h"
#include "cogwheel/serve/viewed_run.h"

namespace cogwheel::serve {

class Viewer {
 public:
  // Throws Error where two runs do not read texts as the same tokens.
  explicit Viewer(std::vector<ViewedRun> runs);

  const std::vector<ViewedRun>& runs() const { return runs_; }
  // Of each run what a page must know of it beforehand, without a pass.
  nlohmann::ordered_json runs_json() const;
  // Lines that say which checkpoints have changed on disk.
  nlohmann::ordered_json changes_json();

  // The small maps of all heads, and what is said next.
  nlohmann::ordered_json view(const ViewRequest& request);
  // The large map of `request.head`.
  nlohmann::ordered_json map(const ViewRequest& request, int bits = 16);
  // That of every head, [layers][heads].
  nlohmann::ordered_json all_maps(const ViewRequest& request, int bits);

  // The side of small maps, in points.
  static constexpr std::int64_t small_side = 96;

 private:
  // One pass is told by these.
  struct PassKey {
    std::size_t run = 0;
    std::string text, second_text;
    std::vector<interpret::HeadEdit> edits;
    bool operator==(const PassKey&) const = default;
  };
  struct KeptPass {
    PassKey key;
    std::shared_ptr<const ViewedPass> pass;
    std::shared_ptr<const HeadMaps> scores;  // null until asked for
  };
  struct KeptMaps {
    PassKey left, right;
    ShownValues values{};
    Compared compared{};
    std::shared_ptr<const HeadMaps> maps;
  };
  struct Sources {
    PassKey shown, plain;  // plain: without edits
    PassKey other;         // what is subtracted
  };

  Sources sources_of(const ViewRequest& request);
  std::vector<interpret::HeadEdit> edits_of(const ViewRequest& request);
  KeptPass& pass_of(const PassKey& key);
  std::shared_ptr<const HeadMaps> maps_of(const PassKey& key, ShownValues values);
  std::shared_ptr<const HeadMaps> shown_maps(const ViewRequest& request, const Sources& sources);
  void forget_oldest();

  std::vector<ViewedRun> runs_;
  std::vector<std::vector<std::int64_t>> heads_;  // of each run, those of its layers
  std::list<KeptPass> passes_;                    // the latest first
  std::list<KeptMaps> made_;                      // the same, of maps that are no pass's own
};

}  // namespace cogwheel::serve
