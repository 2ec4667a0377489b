// changes.jsonl: what was changed in the configuration of a run when it was resumed.
#pragma once
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/runs/configuration/run_config.h"

namespace cogwheel::runs {

struct RunChange {
  struct Key {
    std::string key, before, after;  // values as in TOML
  };
  std::int64_t step = 0;  // the steps done before
  std::vector<Key> keys;
};

// Whether a run that is resumed may go on with another value: of training, but for what its checkpoint depends on.
bool may_change(std::string_view key);

// Throws UsageError that begins with `what` where a key differs that may not change.
RunChange change_between(const RunConfig& before, const RunConfig& after, std::int64_t step, const std::string& what);

// Empty where there is no such file. Throws Error that names the line that is no change, or has a key that no run may
// change.
std::vector<RunChange> read_changes(const std::filesystem::path& path);
// Written before anything else changes: the file decides.
void add_change(const std::filesystem::path& path, const RunChange& change);

// Where a run has gone back to a step before some of them, they hold from there on: the file says so afterwards.
std::vector<RunChange> changes_until(const std::filesystem::path& path, std::int64_t step);

std::set<std::string> changed_keys(const std::vector<RunChange>& changes);
// The configuration after all of them, whichever of them it has. Throws Error that names their file where a value is
// impossible.
RunConfig with_changes(RunConfig config, const std::vector<RunChange>& changes, const std::filesystem::path& path);
// reported_steps of a run that was changed on the way; `now` is its configuration after all changes.
std::vector<std::int64_t> reported_steps(const RunConfig& now, const std::vector<RunChange>& changes,
                                         std::int64_t until);

}  // namespace cogwheel::runs
