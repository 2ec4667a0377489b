#include "cogwheel/compare/comparison_folder.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "support/temporary_folder.h"

namespace cogwheel::compare {
namespace {

namespace fs = std::filesystem;

std::string refusal_of(const fs::path& folder, const std::function<void()>& action) {
  try {
    action();
    return "accepted";
  } catch (const Error& error) {
    return std::string(error.what()).substr(folder.string().size());
  }
}

TEST(ComparisonFolder, OverwritesNothingThatItDidNotWrite) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path();
  const auto thesis = temporary.write("trained/thesis.txt", "mine");
  EXPECT_EQ(refusal_of(folder, [&] { ComparisonFolder::create(folder, true); }),
            ": expected a comparison to overwrite, got one that holds trained and no .cogwheel");
  EXPECT_EQ(read_file(thesis), "mine");

  // Also beside files of the comparison.
  for (const char* name :
       {"results.json", "report.html", "trained/cog-seed-1/config.toml", "trained/softmax-seed-1/config.toml",
        "trained/relu-seed-1/.cogwheel", ".results.json.77.part"})  // relu: killed before its marker was written
    temporary.write(name, "");
  for (const char* run : {"trained/cog-seed-1/.cogwheel", "trained/softmax-seed-1/.cogwheel"})
    temporary.write(run, "run\n");
  for (const char* other : {"notes.txt", "trained/cog-seed-1/notes.txt", "trained/notes/config.toml"})
    temporary.write(other, "mine");
  temporary.write(".cogwheel", "comparison\n");
  ComparisonFolder::create(folder, true);
  std::set<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) left.insert(entry.path().lexically_relative(folder).string());
  EXPECT_EQ(left,
            (std::set<std::string>{".cogwheel", "notes.txt", "trained/cog-seed-1/.cogwheel",
                                   "trained/cog-seed-1/notes.txt", "trained/notes/config.toml", "trained/thesis.txt"}));
  EXPECT_FALSE(fs::exists(folder / "trained/softmax-seed-1"));
  EXPECT_FALSE(fs::exists(folder / "trained/relu-seed-1"));
}

TEST(ComparisonFolder, OverwritesNoFolderThatIsOnlyNamedAsARun) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path(), run = folder / "trained/mine-seed-7";
  for (const char* name : {"results.json", "trained/cog-seed-1/config.toml"}) temporary.write(name, "");
  temporary.write("trained/cog-seed-1/.cogwheel", "run\n");
  temporary.write(".cogwheel", "comparison\n");
  temporary.write("trained/mine-seed-7/config.toml", "mine");
  EXPECT_EQ(refusal_of(run, [&] { ComparisonFolder::create(folder, true); }),
            ": expected a run to overwrite, got one that holds config.toml and no .cogwheel");
  EXPECT_EQ(read_file(run / "config.toml"), "mine");
  EXPECT_FALSE(fs::exists(run / ".cogwheel"));
  EXPECT_TRUE(fs::exists(folder / "trained/cog-seed-1/config.toml"));
  EXPECT_TRUE(fs::exists(folder / "results.json"));
}

// Whoever measures a run of a comparison again, or goes on with it, measures what the comparison does.
TEST(ComparisonFolder, SaysWhatItsRunsAreMeasuredOn) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "z";
  CompareRequest request;
  request.task = "parity";
  Comparison comparison = plan_comparison(request);
  const auto task = load_tasks(comparison).shared();
  decide_steps(comparison, {.steps = 1}, [](const auto&...) { return 1.0; });
  comparison.data.evaluated_tokens = comparison.data.curve_tokens = 20 * comparison.data.window;
  const ComparisonFolder held = ComparisonFolder::create(folder, false);
  held.write_results(comparison);
  const MechanismPlan& plan = comparison.mechanisms.front();
  const fs::path run = held.run_path(plan, 1);
  make_folder(run);
  fs::create_directory_symlink("trained", folder / "link");

  const runs::RunConfig config = run_config(comparison, plan, 1);
  const auto evaluated = [&](const fs::path& path) {
    return task_of_run(config, path)->data(config.model, config.training).evaluated_tokens;
  };
  EXPECT_EQ(evaluated(run), comparison.data.evaluated_tokens);
  EXPECT_EQ(evaluated(folder / "link" / run.filename()), comparison.data.evaluated_tokens);
  EXPECT_GT(evaluated(temporary.path() / "run"), comparison.data.evaluated_tokens);
  EXPECT_FALSE(evaluated_in_comparison(folder / "trained"));
  EXPECT_FALSE(evaluated_in_comparison(folder));
}

TEST(ComparisonFolder, IsOfOneProcessAtATime) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "z";
  const ComparisonFolder held = ComparisonFolder::create(folder, false);
  write_file(folder / "results.json", "");
  const std::string locked = ": expected a comparison that is not in use, got one that another process is using";
  EXPECT_EQ(refusal_of(folder, [&] { ComparisonFolder::create(folder, true); }), locked);
  EXPECT_EQ(refusal_of(folder, [&] { ComparisonFolder::resume(folder); }), locked);
  EXPECT_TRUE(fs::exists(folder / "results.json"));
}

TEST(ComparisonFolder, WaitsForNoRunThatIsBeingResumed) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "z", run = folder / "trained/cog-seed-1";
  ComparisonFolder::create(folder, false);
  temporary.write("z/results.json", "");
  temporary.write("z/trained/cog-seed-1/config.toml", "");
  const FolderLock resumed(run, "run");
  EXPECT_EQ(refusal_of(run, [&] { ComparisonFolder::create(folder, true); }),
            ": expected a run that is not in use, got one that another process is using");
  EXPECT_TRUE(fs::exists(run / "config.toml"));
  EXPECT_TRUE(fs::exists(folder / "results.json"));
}

}  // namespace
}  // namespace cogwheel::compare
