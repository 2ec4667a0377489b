// A user's own mechanism: defined in one line or read from a header, compiled once, then one like any other.
//
// Loading runs code: a header is C++ that is compiled and executed with the rights of the program. Nothing loads one
// that was not asked for by name. A definition in one line is a formula and can do no more than compute.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "cogwheel/authoring/definition.h"
#include "cogwheel/mechanisms/catalogue.h"

namespace cogwheel {

// Called before a compiler runs and after it ended.
struct CompileProgress {
  std::function<void(const std::string&name)> begin, end;
};
// On a terminal: "compiling mine (once) …" on stderr while it runs; elsewhere nothing.
CompileProgress progress_on_terminal();

// The catalogue's entry of the definition, whose kernels are compiled for this machine's instruction set unless the
// cache has them (module_cache.h). The same definition again is the same entry. Throws UsageError where the name is
// taken or a formula gives no number where it should; Error where there is no compiler. Any thread may call.
const Mechanism& define_mechanism(const MechanismDefinition& definition,
                                  const CompileProgress& progress = progress_on_terminal());

// The same of a header <name>.h that holds struct <Name> (contract.h; header_to_start_from). Its derivatives are held
// against finite differences. A message about C++ shows the user's own line.
const Mechanism& load_mechanism(const std::filesystem::path& header,
                                const CompileProgress& progress = progress_on_terminal());

// The option that brings a mechanism of that definition: --define '…' or --mechanism-file ….
std::string option_for(std::string_view definition);

// What a run, a comparison or a checkpoint recorded: throws UsageError, which names the option, unless the mechanism of
// that name is there and is made of that definition. An empty definition is that of a built-in one, and asks nothing.
void require_mechanism(std::string_view name, std::string_view definition, std::string_view what);

}  // namespace cogwheel
