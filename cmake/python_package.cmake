# What a wheel holds beside the Python files, as the component `python`: operators, models, the command line as a library and
# its executable, the libraries of Debian that they need, with their licences, the headers that users' mechanisms are compiled against, and the experiments. Everything lies
# below cogwheel/, so that one finds the other from where it lies itself; torch is the neighbour in site-packages.
set(torch_beside "$ORIGIN/../torch/lib:$ORIGIN/../torch.libs")
set_target_properties(cogwheel_ops PROPERTIES INSTALL_RPATH "$ORIGIN/lib:${torch_beside}")
set_target_properties(cogwheel_bindings cogwheel_command PROPERTIES INSTALL_RPATH "$ORIGIN:$ORIGIN/lib:${torch_beside}")
string(REPLACE "$ORIGIN" "$ORIGIN/.." from_bin "$ORIGIN:$ORIGIN/lib:${torch_beside}")
set_target_properties(cogwheel PROPERTIES INSTALL_RPATH "${from_bin}")
install(TARGETS cogwheel_ops cogwheel_bindings cogwheel_command LIBRARY DESTINATION cogwheel COMPONENT python)
install(TARGETS cogwheel RUNTIME DESTINATION cogwheel/bin COMPONENT python)
# The command line loads it from there.
set_target_properties(cogwheel_sentencepiece PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS cogwheel_sentencepiece LIBRARY DESTINATION cogwheel/lib COMPONENT python)

# Under the names by which they are loaded: another machine may lack the packages.
find_library(MIMALLOC_LIBRARY mimalloc REQUIRED)
find_library(HWY_LIBRARY hwy REQUIRED)
# What cpp-httplib needs is linked with the command line itself, whose RUNPATH does not hold for libraries of libraries.
set(http_libraries)
foreach(name IN ITEMS cpp-httplib ssl crypto brotlidec brotlienc brotlicommon)
  string(TOUPPER ${name} variable)
  find_library(${variable}_LIBRARY ${name} REQUIRED)
  list(APPEND http_libraries ${${variable}_LIBRARY})
endforeach()
target_link_libraries(cogwheel_command PRIVATE -Wl,--push-state,--no-as-needed ${http_libraries} -Wl,--pop-state)
find_library(SIMDJSON_LIBRARY simdjson REQUIRED)
set(packages_within)  # of Debian, whose code the wheel holds: as libraries, headers or scripts
foreach(library IN ITEMS ${MIMALLOC_LIBRARY} ${HWY_LIBRARY} ${SENTENCEPIECE_LIBRARY} ${SENTENCEPIECE_TRAIN_LIBRARY} ${PNG_LIBRARY_RELEASE}
    ${JPEG_LIBRARY_RELEASE} ${SIMDJSON_LIBRARY} ${http_libraries})
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${library} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "SONAME +([^ \n]+)" matched "${headers}")
  file(REAL_PATH ${library} path)
  install(FILES ${path} DESTINATION cogwheel/lib RENAME ${CMAKE_MATCH_1} COMPONENT python)
  execute_process(COMMAND dpkg-query --search ${path} OUTPUT_VARIABLE owner ERROR_QUIET)
  if(owner MATCHES "^([^:]+):")
    list(APPEND packages_within ${CMAKE_MATCH_1})
  endif()
endforeach()

# Their licences ask to be handed on with them.
file(READ setup/debian_packages.sh packages)
string(REGEX MATCH "build_packages=\\(([^)]*)\\)" matched "${packages}")
string(REGEX MATCHALL "(lib|nlohmann|zlib)[^ \n]*" packages "${CMAKE_MATCH_1}")
list(APPEND packages_within ${packages})
list(REMOVE_DUPLICATES packages_within)
foreach(package IN LISTS packages_within)
  set(licence /usr/share/doc/${package}/copyright)
  if(EXISTS ${licence})
    file(REAL_PATH ${licence} licence)
    install(FILES ${licence} DESTINATION cogwheel/licenses RENAME ${package}.txt COMPONENT python)
  endif()
endforeach()

get_target_property(headers cogwheel_authoring COGWHEEL_MECHANISM_HEADERS)
foreach(header IN LISTS headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION cogwheel/include/${folder} COMPONENT python)
endforeach()
install(DIRECTORY experiments/ DESTINATION cogwheel/experiments COMPONENT python FILES_MATCHING PATTERN "*.toml")
