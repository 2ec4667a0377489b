// A user's own mechanism: defined in one line or read from a header, compiled once, then used like any other.
//
// Loading runs code: a header is C++ that is compiled and executed with the rights of the program. No header is
// loaded unless it was asked for by name. A definition in one line is a formula and can do no more than compute.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "cogwheel/attention/authoring/definition.h"
#include "cogwheel/attention/mechanisms/catalogue.h"

namespace cogwheel::authoring {

// Called before a compiler runs and after it ended.
struct CompileProgress {
  std::function<void(const std::string&name)> begin, end;
};
// On a terminal: "compiling mine (once) …" on stderr while it runs; elsewhere nothing.
CompileProgress progress_on_terminal();

// The catalogue's entry of the definition, whose kernels are compiled for this machine's instruction set unless the
// cache has them (core/cache/file_cache.h). The same definition again gives the same entry. Throws UsageError where the
// name is taken or a formula is not a number where it should be; Error where there is no compiler. Any thread may call.
const Mechanism& define_mechanism(const MechanismDefinition& definition,
                                  const CompileProgress& progress = progress_on_terminal());

// The same of a header <name>.h that holds struct <Name>: a row map (contract.h), whose derivatives are compared with
// finite differences, or a law (recurrent_contract.h). A message about C++ shows the user's own line.
const Mechanism& load_mechanism(const std::filesystem::path& header,
                                const CompileProgress& progress = progress_on_terminal());

// The option that defines or loads a mechanism of that definition: --define '…' or --mechanism-file ….
std::string option_for(std::string_view definition);

// For a mechanism that a run, a comparison or a checkpoint recorded: throws UsageError, which names the option, unless
// the mechanism of that name is registered with that definition. An empty definition is that of a built-in one, which
// needs nothing.
void require_mechanism(std::string_view name, std::string_view definition, std::string_view what);

}  // namespace cogwheel::authoring
