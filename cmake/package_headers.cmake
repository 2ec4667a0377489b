# cmake -DROOT=… -DNAMES=… -DTARGET=… -P package_headers.cmake: the headers that mechanisms are compiled against, below
# TARGET as they lie below ROOT.
separate_arguments(names UNIX_COMMAND "${NAMES}")
file(REMOVE_RECURSE ${TARGET})
foreach(name IN LISTS names)
  configure_file(${ROOT}/${name} ${TARGET}/${name} COPYONLY)
endforeach()
