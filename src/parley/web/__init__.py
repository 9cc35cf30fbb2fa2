"""The page: a face in the browser over the jobs of one repository or several, for `parley serve`."""
